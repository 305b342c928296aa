"""Pooling: equal to the reference in every layout, padded, dilated and hanging over the edges."""

import dataclasses

import numpy as np
import pytest
from tvm import tirx
from tvm.target import Target

from schedules.cpu.pool2d import POOL2D_CPU
from schedules.layout import NCHW4C, NCHW16C, NHWC, ROW
from schedules.reference.kernels import reference
from schedules.spec import Pool2d
from schedules.targets import named_target
from schedules.template import Layouts
from tests.schedules.any_layout_runs import build, check, f32, i32, random_tensors, run

LAYOUTS = [ROW, NHWC, NCHW4C, NCHW16C]
WINDOWS = {
    "3x3 stride 2 padded": ((12, 12), (6, 6), (3, 3), (2, 2), (1, 1), (1, 1)),
    "global": ((7, 9), (1, 1), (7, 9), (1, 1), (1, 1), (0, 0)),
    "hangs over": ((7, 8), (4, 4), (3, 2), (2, 2), (1, 1), (0, 0)),
    "dilated": ((9, 9), (9, 9), (3, 3), (1, 1), (2, 2), (2, 2)),
    "padding alone": ((4, 4), (5, 6), (1, 1), (1, 1), (1, 1), (1, 1)),
}


def pool(reduce: str, window: str, x: str, y: str, channels: int = 20, batch=2) -> Pool2d:
    (h, w), out_size, kernel, strides, dilation, padding = WINDOWS[window]
    return Pool2d(
        reduce=reduce, batch=batch, channels=channels, height=h, width=w, out_size=out_size,
        kernel=kernel, strides=strides, dilation=dilation, padding=padding, x=x, y=y,
    )  # fmt: skip


def average(spec: Pool2d) -> dict[str, np.ndarray]:
    """Return constants with another multiplier at each place, as count_include_pad=0 has."""
    m = np.random.default_rng(1).uniform(0.8, 1.3, spec.out_size) / np.prod(spec.kernel)
    return {"m": m.astype(np.float32), "z": i32(100, -3), "clamp": f32(-125, 130)}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("window", WINDOWS)
def test_max(window, layout):
    check(pool("max", window, "int8", "int8"), {}, layout)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("window", WINDOWS)
def test_minus_infinities_alone(window, layout):
    spec = pool("max", window, "float32", "float32", channels=16)
    x = np.full((2, 16, spec.height, spec.width), -np.inf, np.float32)
    y = check(spec, {}, layout, tensors={"x": x})
    assert np.isneginf(y).all() == (window != "padding alone")


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("window", WINDOWS)
def test_average(window, layout):
    spec = pool("avg", window, "uint8", "int8")
    check(spec, average(spec), layout)


def test_a_large_maximum_compiles():
    """Written out by rows, LLVM took 100 s for it."""
    whole = {"height": 32, "width": 32, "out_size": (1, 1), "kernel": (32, 32)}
    spec = pool("max", "global", "float32", "float32", channels=16, batch=1)
    check(dataclasses.replace(spec, **whole), {}, NCHW16C)


@pytest.mark.parametrize("layout", [NHWC, NCHW16C], ids=lambda layout: layout.name)
def test_float32_keeps_pad_lanes_zero(layout):
    check(pool("max", "3x3 stride 2 padded", "float32", "float32"), {}, layout)
    spec = pool("avg", "3x3 stride 2 padded", "float32", "float32")
    check(spec, average(spec), layout)
    spec = pool("avg", "global", "int8", "float32")
    check(spec, average(spec), layout)


@pytest.mark.fast
@pytest.mark.parametrize(
    "target",
    [
        pytest.param("x86", id="plain"),
        pytest.param("x86-avx2", id="avx2", marks=pytest.mark.isa("avx2")),
    ],
)
def test_every_target(target):
    check(pool("max", "hangs over", "uint8", "uint8"), {}, NCHW16C, target=named_target(target))
    spec = pool("avg", "3x3 stride 2 padded", "int8", "uint8")
    params = {**average(spec), "z": i32(-4, 100)}
    check(spec, {**params, "clamp": f32(-100, 155)}, NCHW16C, target=named_target(target))


@pytest.mark.parametrize("layout", [ROW, NCHW16C], ids=lambda layout: layout.name)
def test_large_images_are_parallel(layout):
    spec = Pool2d(
        reduce="max", batch=1, channels=32, height=33, width=40, out_size=(17, 20), kernel=(3, 3),
        strides=(2, 2), padding=(1, 1), x="uint8", y="uint8",
    )  # fmt: skip
    check(spec, {}, layout)
    check(spec, {}, layout, searched=True)


def test_symbolic_batch():
    spec = pool("avg", "global", "uint8", "int8", batch=tirx.Var("n", "int64"))
    built, layouts = build(spec, Layouts(inputs=(NCHW16C,), output=NCHW16C))
    for batch in (1, 3):
        tensors = random_tensors(spec, batch)
        memory = run(built, spec, layouts, tensors, average(spec))
        expected = reference(spec, tensors, average(spec))
        np.testing.assert_array_equal(NCHW16C.unpack(memory, expected.shape), expected)


def test_refuses():
    spec = pool("avg", "global", "uint8", "int8")
    assert POOL2D_CPU.refuses(spec, Target("c")) == "target is c, not llvm"
    assert POOL2D_CPU.refuses(spec, Target("llvm")) is None
    huge = dataclasses.replace(spec, height=4096, width=2048, kernel=(4096, 2048))
    reason = POOL2D_CPU.refuses(huge, Target("llvm"))
    assert reason == "a window of 8388608 elements may overflow int32; the limit is 4194304"
