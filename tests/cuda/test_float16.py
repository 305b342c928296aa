"""Products of float16 on the emulated GPU: equal to NumPy with the same rounding."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from schedules.cuda.dp4a.conv2d_f16 import CONV2D_F16_CUDA
from schedules.cuda.dp4a.conv2d_f32 import CONV2D_F32_CUDA
from schedules.cuda.dp4a.dense import DENSE_F16_CUDA, DENSE_F32_CUDA
from schedules.selection import select
from schedules.spec import Conv2d, Dense
from schedules.targets import native_target
from schedules.template import Arrays, ScheduleError
from tests.cuda.run_template import SM_61, Built, Case, build
from tests.schedules.numpy_kernels import random_arrays, reference

F16: dict[str, Any] = {"x": "float32", "y": "float32", "half": True}
CONV: dict[str, Any] = {
    "batch": 1, "in_channels": 8, "height": 6, "width": 7, "out_channels": 12, "kernel": (3, 3),
    "padding": (1, 1, 1, 1), **F16,
}  # fmt: skip
CASES = {
    "conv": Case(spec=Conv2d(**CONV)),
    "conv_ragged": Case(
        spec=Conv2d(**(CONV | {"in_channels": 5, "out_channels": 7, "leaky": True}))
    ),
    "conv_1x1": Case(
        spec=Conv2d(**(CONV | {"kernel": (1, 1), "padding": (0, 0, 0, 0), "residual": "float32"}))
    ),
    "conv_groups": Case(spec=Conv2d(**(CONV | {"groups": 2, "out_channels": 8}))),
    "dense": Case(spec=Dense(rows=1, n=40, k=64, **F16)),
    "dense_odd": Case(spec=Dense(rows=3, n=10, k=19, **F16)),
}


@pytest.fixture(scope="module")
def built() -> Built:
    return build(CASES)


def rounded(arrays: Arrays) -> Arrays:
    """Return the arrays with x and w as float16 has them."""
    with np.errstate(over="ignore"):
        halves = {name: arrays[name].astype("float16").astype("float32") for name in ("x", "w")}
    return arrays | halves


def assert_equal_sums(spec: Conv2d | Dense, actual: np.ndarray, arrays: Arrays) -> None:
    """Compare with float64 sums of the rounded numbers, relative to the largest."""
    expected = reference(spec, rounded(arrays))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", CASES)
def test_equals_numpy(built, name):
    spec = CASES[name].spec
    arrays = random_arrays(spec, np.random.default_rng(1))
    actual = built.run(name, arrays)
    assert_equal_sums(spec, actual, arrays)
    unrounded = reference(spec, arrays)
    assert np.abs(actual - unrounded).max() > 1e-4 * np.abs(unrounded).max()


def test_sampled():
    sampled = build({name: CASES[name] for name in ("conv", "dense_odd")}, seed=1)
    for name, case in sampled.cases.items():
        arrays = random_arrays(case.spec, np.random.default_rng(2))
        assert_equal_sums(case.spec, sampled.run(name, arrays), arrays)


@pytest.mark.parametrize(
    ("x", "kept"),
    [
        (65519.0, 65504.0),
        (-65519.0, -65504.0),
        (65520.0, np.inf),
        (-1e30, -np.inf),
        (2.0**-24, 2.0**-24),
        (2.0**-26, 0.0),
        (-1.00048828125, -1.0),  # half way, to even
        (1.00146484375, 1.001953125),
    ],
)
def test_x_is_rounded_as_ieee_says(built, x, kept):
    """One product of x by one: what arrives is x as float16."""
    spec = CASES["dense"].spec
    arrays = random_arrays(spec, np.random.default_rng(1))
    arrays |= {name: np.zeros_like(arrays[name]) for name in ("x", "bias")}
    arrays["clamp"] = np.array([-np.inf, np.inf], "float32")
    arrays["w"] = np.ones_like(arrays["w"])
    arrays["x"][0, 3] = x
    np.testing.assert_array_equal(built.run("dense", arrays), np.full((1, 40), kept, "float32"))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "half", "whole"),
    [("conv", CONV2D_F16_CUDA, CONV2D_F32_CUDA), ("dense", DENSE_F16_CUDA, DENSE_F32_CUDA)],
)
def test_choice(name, half, whole):
    spec = CASES[name].spec
    assert select(spec, SM_61) is half
    assert select(dataclasses.replace(spec, half=False), SM_61) is whole
    with pytest.raises(ScheduleError, match="the products are to be of float16"):
        select(spec, native_target())


@pytest.mark.fast
def test_depthwise_layers_have_none():
    with pytest.raises(ScheduleError, match="want multiples of 4"):
        select(Conv2d(**(CONV | {"groups": 8, "out_channels": 8})), SM_61)
