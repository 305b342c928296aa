"""Sampling at moved places equals its definition, element by element, in every layout."""

import dataclasses

import numpy as np
import pytest
from tvm import tirx

from schedules.layout import NCHW4C, NCHW16C, NHWC, ROW
from schedules.reference.kernels import reference
from schedules.spec import Sample2d
from schedules.targets import named_target
from schedules.template import Arrays, Layouts
from tests.oracle.arithmetic import fma
from tests.schedules.any_layout_runs import build, check, f32, i32, run

PLAIN = Sample2d(
    batch=2, channels=32, height=7, width=6, kernel=(3, 3), padding=(1, 1, 1, 1), x="uint8",
    y="uint8",
)  # fmt: skip
KINDS = {
    "plain": PLAIN,
    "grouped": dataclasses.replace(
        PLAIN, groups=2, parts=2, masked=True, strides=(2, 1), x="int8", y="int8"
    ),
    "edge": dataclasses.replace(
        PLAIN, rim="edge", dilation=(2, 1), padding=(2, 1, 2, 1), x="float32", y="float32"
    ),
    "ragged": dataclasses.replace(
        PLAIN, channels=6, groups=2, parts=3, masked=True, kernel=(2, 3), padding=(0, 1, 1, 0)
    ),
}


def tensors_of(spec: Sample2d, batch: int = 2) -> Arrays:
    """Return pixels, offsets near and far, whole, on the rim, not numbers, and a mask beyond 1."""
    rng = np.random.default_rng(spec.channels)
    shapes = {name: (batch, *spec.shape(name)[1:]) for name in spec.tensors}
    x = rng.normal(size=shapes["x"]).astype(np.float32)
    if spec.x != "float32":
        info = np.iinfo(spec.x)
        x = rng.integers(info.min, info.max + 1, shapes["x"]).astype(spec.x)
    offset = rng.normal(0, 1.5, shapes["offset"]).astype(np.float32)
    offset.flat[::5] = np.rint(offset.flat[::5])
    offset.flat[:5] = np.nan, np.inf, -np.inf, 1e30, -1e-30
    mask = rng.uniform(-0.2, 1.3, shapes.get("mask", ())).astype(np.float32)
    return {"x": x, "offset": offset} | ({"mask": mask} if spec.masked else {})


def params_of(spec: Sample2d) -> Arrays:
    if spec.x == "float32":
        return {}
    return {"m": f32(1.37), "z": i32(100, -3 if spec.y == "int8" else 7), "clamp": f32(-60, 70)}


def axis_weights(p: np.float32, size: int, rim: str) -> dict[int, np.float32]:
    """Return what the pixels along one axis count for a place; none where it sees nothing."""
    if not ((p >= 0 if rim == "edge" else p > -1) and p < size):
        return {}
    p = min(p, np.float32(size - 1)) if rim == "edge" else p
    low = int(np.floor(p))
    share = np.float32(p - np.float32(low))
    pairs = {low: np.float32(1) - share, low + 1: share}
    return {pixel: weight for pixel, weight in pairs.items() if 0 <= pixel < size}


def by_definition(spec: Sample2d, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return y, one element after the other."""
    x, offset = tensors["x"], tensors["offset"]
    y = np.zeros((len(x), *spec.shape("y")[1:]), spec.y)
    inside, taps = spec.channels // spec.groups, spec.taps
    for n, group, tap, place, i, j in np.ndindex(len(x), spec.groups, taps, inside, *spec.out_size):
        channel = group * inside + place
        part = channel // (spec.channels // spec.parts)
        dy, dx = offset[n, 2 * (part * taps + tap) : 2 * (part * taps + tap) + 2, i, j]
        row = i * spec.strides[0] - spec.padding[0] + tap // spec.kernel[1] * spec.dilation[0]
        col = j * spec.strides[1] - spec.padding[1] + tap % spec.kernel[1] * spec.dilation[1]
        rows = axis_weights(np.float32(row) + dy, spec.height, spec.rim)
        cols = axis_weights(np.float32(col) + dx, spec.width, spec.rim)
        factors = [tensors["mask"][n, part * taps + tap, i, j]] if spec.masked else []
        factors += list(params["m"]) if params else []
        total = np.float32(0)
        for r in sorted(rows) if cols else ():
            for c in sorted(cols):
                weight = np.float32(rows[r] * cols[c])
                for factor in factors:
                    weight = np.float32(weight * factor)
                pixel = x[n, channel, r, c]
                real = pixel if spec.x == "float32" else np.float32(int(pixel) - params["z"][0])
                total = fma(np.asarray(real), np.asarray(weight), np.asarray(total))
        if spec.y != "float32":
            low, high = params["clamp"]
            total = int(np.rint(min(max(total, low), high))) + params["z"][1]
        y[n, (group * taps + tap) * inside + place, i, j] = total
    return y


@pytest.mark.parametrize("kind", KINDS)
def test_reference_equals_definition(kind):
    spec = KINDS[kind]
    spec = dataclasses.replace(spec, batch=1, channels=min(spec.channels, 6))
    tensors, params = tensors_of(spec, 1), params_of(spec)
    found = reference(spec, tensors, params)
    assert found.dtype == spec.y
    np.testing.assert_array_equal(found, by_definition(spec, tensors, params))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", [ROW, NHWC, NCHW4C, NCHW16C], ids=lambda layout: layout.name)
def test_equals_reference(kind, layout):
    spec = KINDS[kind]
    inputs = (layout, ROW, ROW)[: len(spec.tensors)]
    y = check(spec, params_of(spec), inputs, layout, tensors=tensors_of(spec))
    assert len(np.unique(y)) > 50


@pytest.mark.fast
@pytest.mark.parametrize(
    "target",
    [
        pytest.param("x86", id="plain"),
        pytest.param("x86-avx2", id="avx2", marks=pytest.mark.isa("avx2")),
    ],
)
def test_every_target(target):
    for spec in (PLAIN, KINDS["grouped"]):
        inputs = (NCHW16C, NCHW16C, ROW)[: len(spec.tensors)]
        check(
            spec, params_of(spec), inputs, NCHW16C, named_target(target), tensors=tensors_of(spec)
        )


def test_symbolic_batch():
    spec = dataclasses.replace(PLAIN, batch=tirx.Var("n", "int64"))
    built, layouts = build(spec, Layouts(inputs=(NCHW16C, ROW), output=NCHW16C))
    for batch in (1, 3):
        tensors = tensors_of(spec, batch)
        memory = run(built, spec, layouts, tensors, params_of(spec))
        expected = reference(spec, tensors, params_of(spec))
        np.testing.assert_array_equal(NCHW16C.unpack(memory, expected.shape), expected)
