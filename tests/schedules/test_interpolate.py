"""Bilinear resize: numbers worked by hand, and every layout against the reference."""

import dataclasses

import numpy as np
import pytest
from tvm import tirx

from relay_int8.tuning.problem_constants import random_taps
from schedules.layout import NCHW4C, NCHW16C, NHWC, ROW
from schedules.reference.kernels import reference
from schedules.spec import Interpolate
from schedules.template import Layouts
from tests.schedules.any_layout_runs import build, check, f32, i32, random_tensors, run

SPEC = Interpolate(batch=2, channels=20, height=5, width=6, out_size=(9, 4), x="uint8", y="int8")


def constants(spec: Interpolate) -> dict[str, np.ndarray]:
    """Return any places and weights, and a multiplier under which a few values saturate."""
    rng = np.random.default_rng(6)
    axes = zip(("rows", "columns"), (spec.height, spec.width), spec.out_size, strict=True)
    places = {name: random_taps(rng, size, out) for name, size, out in axes}
    clamp = {"uint8": f32(-7, 248), "int8": f32(-121, 134)}[spec.y]
    return places | {
        "m": f32(1.3 * 2.0**-22),
        "z": i32(99, {"uint8": 7, "int8": -7}[spec.y]),
        "clamp": clamp,
    }


@pytest.mark.fast
def test_weights_of_rows_and_columns_multiply():
    spec = Interpolate(
        batch=1, channels=1, height=2, width=2, out_size=(1, 1), x="uint8", y="uint8"
    )
    params = {
        "rows": i32(0, 1, 512),  # a quarter of the second row
        "columns": i32(0, 1, 1024),  # half of each column
        "m": f32(2.0**-22),
        "z": i32(3, 10),
        "clamp": f32(-10, 245),
    }
    # x - 3: 0 4 / 8 18; columns 2, 13; rows 0.75 * 2 + 0.25 * 13 = 4.75, rounded 5, plus 10
    x = np.array([[[[3, 7], [11, 21]]]], np.uint8)
    assert reference(spec, {"x": x}, params) == 15


@pytest.mark.parametrize("layout", [ROW, NHWC, NCHW4C, NCHW16C], ids=lambda layout: layout.name)
@pytest.mark.parametrize(("x", "y"), [("uint8", "int8"), ("int8", "uint8")])
def test_equals_reference(layout, x, y):
    spec = dataclasses.replace(SPEC, x=x, y=y)
    check(spec, constants(spec), layout)


def test_extremes_stay_within_int32():
    spec = dataclasses.replace(SPEC, y="uint8")
    params = constants(spec) | {"z": i32(0, 0), "clamp": f32(0, 255)}
    built, layouts = build(spec, Layouts(inputs=(NCHW16C,), output=NCHW16C))
    rng = np.random.default_rng(7)
    tensors = {"x": 255 * rng.integers(0, 2, (2, 20, 5, 6), dtype=np.uint8)}
    memory = run(built, spec, layouts, tensors, params)
    wanted = reference(spec, tensors, params)
    np.testing.assert_array_equal(NCHW16C.unpack(memory, wanted.shape), wanted)


def test_symbolic_batch():
    spec = dataclasses.replace(SPEC, batch=tirx.Var("n", "int64"))
    built, layouts = build(spec, Layouts(inputs=(NCHW16C,), output=NCHW16C))
    for batch in (1, 3):
        tensors = random_tensors(spec, batch)
        memory = run(built, spec, layouts, tensors, constants(spec))
        wanted = reference(spec, tensors, constants(spec))
        np.testing.assert_array_equal(NCHW16C.unpack(memory, wanted.shape), wanted)
