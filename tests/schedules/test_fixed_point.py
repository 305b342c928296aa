"""Fixed-point kernels: equal to the reference on every x86 target, for each rounding."""

import dataclasses
from itertools import product
from typing import Any

import numpy as np
import pytest
from tvm.target import Target

from relay_int8.numerics.multipliers import fixed_constants
from schedules.layout import NCHW16C, ROW
from schedules.reference.exact import shift_right
from schedules.reference.kernels import reference
from schedules.selection import select
from schedules.spec import ROUNDINGS, Binary, Bound, Conv2d, Dense, Pool2d, Rescale
from schedules.targets import named_target
from schedules.template import ScheduleError
from tests.schedules import conv_runs
from tests.schedules.any_layout_runs import check, f32, i32
from tests.schedules.numpy_kernels import random_arrays
from tests.schedules.run_template import run_template

TARGETS = [
    pytest.param(named_target("x86"), id="plain"),
    pytest.param(named_target("x86-avx2"), id="avx2", marks=pytest.mark.isa("avx2")),
    pytest.param(named_target("x86-vnni"), id="vnni", marks=pytest.mark.isa("avx512_vnni")),
]
VNNI = TARGETS[-1]
BYTES = {"x": "uint8", "y": "uint8"}


def fixed(spec, params, rounding):
    """Return ``spec`` and its constants with fixed-point multipliers."""
    changed = dataclasses.replace(spec, requantize=rounding)
    return changed, fixed_constants(changed, params)


@pytest.mark.fast
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_roundings_by_worked_numbers(rounding):
    """3/8, 3/2, -3/2, -1/2; 3/8 again, where gemmlowp makes it 1/2 first, then 1."""
    found = shift_right(np.array([3, 3, -3, -1]) << 28, np.array([31, 29, 29, 29]), rounding)
    expected = {"gemmlowp": [0, 2, -1, 0], "tflite": [0, 2, -1, 0], "tpu-mlir": [0, 2, -2, -1]}
    np.testing.assert_array_equal(found, expected[rounding])
    twice = shift_right(np.array([3]) << 29, np.array([32]), rounding)
    assert twice.item() == (1 if rounding == "gemmlowp" else 0)


@pytest.mark.fast
def test_floats_have_no_fixed_point():
    with pytest.raises(ScheduleError, match="x is float32, and tflite rounds integers"):
        Rescale(dims=(3,), x="float32", y="float32", requantize="tflite")


LINEAR = {
    "dot": conv_runs.conv(20, (6, 7), groups=1, out_channels=24),
    "leaky": conv_runs.conv(20, (6, 7), groups=1, out_channels=24, leaky=True),
    "residual": conv_runs.conv(16, (5, 7), groups=1, residual="uint8"),
    "leaky residual": conv_runs.conv(16, (5, 7), groups=1, residual="uint8", leaky=True),
    "depthwise": conv_runs.conv(20, (6, 7)),
    "grouped": conv_runs.conv(32, (6, 7), groups=8),
    "any group": conv_runs.conv(30, (6, 7), groups=6),
    "dense": Dense(rows=3, n=20, k=40, leaky=True, **BYTES),
}


def _linear_cases(*, quick: bool) -> list[Any]:
    """Return targets, kernels and roundings; quick are all kernels once, two of them everywhere."""
    everywhere = (("dot", "tpu-mlir"), ("leaky residual", "gemmlowp"))
    return [
        pytest.param(
            *target.values, name, rounding, marks=target.marks, id=f"{target.id}-{name}-{rounding}"
        )
        for target in TARGETS
        for name, rounding in product(LINEAR, ROUNDINGS)
        if quick == ((name, rounding) in everywhere or (target is VNNI and rounding == "gemmlowp"))
    ]


@pytest.mark.parametrize(("target", "name", "rounding"), _linear_cases(quick=True))
def test_linear(target: Target, name: str, rounding):
    assert_linear(target, name, rounding)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "name", "rounding"), _linear_cases(quick=False))
def test_linear_everywhere(target: Target, name: str, rounding, full: bool):
    if not full:
        pytest.skip("needs --full")
    assert_linear(target, name, rounding)


def assert_linear(target: Target, name: str, rounding) -> None:
    spec, tensors, params = linear(LINEAR[name])
    spec, params = fixed(spec, params, rounding)
    found = run_template(select(spec, target), spec, target, {**tensors, **params})
    np.testing.assert_array_equal(found, reference(spec, tensors, params))
    assert len(np.unique(found)) > 30


def linear(spec: Conv2d | Dense):
    """Return ``spec``, random activations and constants."""
    rng = np.random.default_rng(4)
    tensors = {n: conv_runs.random_values(rng, spec.shape(n), spec.dtype(n)) for n in spec.tensors}
    if isinstance(spec, Conv2d):
        return spec, tensors, conv_runs.random_params(rng, spec)
    params = random_arrays(spec, rng, spec.rows)
    return spec, tensors, params | {"z": i32(120, 131, 0), "clamp": f32(-131, 124)}


SHAPE = (2, 20, 5, 7)
CLAMP = f32(-100, 120)
OTHERS = {
    "add": (
        Binary(operator="add", a_shape=SHAPE, b_shape=(2, 20, 1, 1), a="uint8", b="int8", y="int8"),
        {"m_a": f32(0.37), "m_b": f32(0.61), "z": i32(120, -7, 3), "clamp": CLAMP},
    ),
    "mul": (
        Binary(operator="mul", a_shape=SHAPE, b_shape=SHAPE, a="uint8", b="int8", y="int8"),
        {"m": f32(0.0173), "z": i32(120, -7, 3), "clamp": CLAMP},
    ),
    "difference": (
        Binary(operator="add", a_shape=SHAPE, b_shape=SHAPE, a="uint8", b="int8", y="int8"),
        {"m_a": f32(0.37), "m_b": f32(-0.61), "z": i32(120, -7, 3), "clamp": CLAMP},
    ),
    "max": (
        Binary(operator="max", a_shape=SHAPE, b_shape=(2, 20, 1, 1), a="uint8", b="int8", y="int8"),
        {"m_a": f32(0.37), "m_b": f32(0.61), "z": i32(120, -7, 3), "clamp": CLAMP},
    ),
    "min": (
        Binary(operator="min", a_shape=SHAPE, b_shape=SHAPE, a="uint8", b="int8", y="int8"),
        {"m_a": f32(1.25), "m_b": f32(0.61), "z": i32(120, -7, 3), "clamp": CLAMP},
    ),
    "average": (
        Pool2d(
            **dict(reduce="avg", batch=2, channels=20, height=5, width=7, out_size=(3, 4)),
            **dict(kernel=(3, 3), strides=(2, 2), padding=(1, 1), x="uint8", y="int8"),
        ),
        {"m": np.linspace(0.05, 0.3, 12).reshape(3, 4).astype("float32"), "z": i32(117, -3)}
        | {"clamp": CLAMP},
    ),
    "rescale": (
        Rescale(dims=SHAPE, x="int8", y="int8"),
        {"m": f32(1.7), "z": i32(-3, 4), "clamp": CLAMP},
    ),
    "bound": (
        Bound(operator="max", dims=SHAPE, bound_shape=(1, 20, 1, 1), x="int8", y="int8"),
        {"m": f32(1.7), "z": i32(-3, 4), "clamp": CLAMP, "bound": np.arange(-90, 110, 10, np.int8)},
    ),
    "upper bound": (
        Bound(operator="min", dims=SHAPE, bound_shape=(1, 1, 5, 7), x="int8", y="int8"),
        {"m": f32(1.7), "z": i32(-3, 4), "clamp": CLAMP, "bound": np.arange(-90, 85, 5, np.int8)},
    ),
    "leaky": (
        Rescale(dims=SHAPE, x="uint8", y="int8", leaky=True),
        {"m": f32(0.8), "m_neg": f32(*np.linspace(-0.3, 0.9, 20)), "z": i32(120, 4)}
        | {"clamp": CLAMP},
    ),
}


QUICK = (("tflite", ROW), ("gemmlowp", NCHW16C), ("tpu-mlir", NCHW16C))
LEFT = (("tflite", NCHW16C), ("gemmlowp", ROW), ("tpu-mlir", ROW))


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize(("rounding", "layout"), QUICK)
def test_others(rounding, name: str, layout):
    check(*fixed(*OTHERS[name], rounding), layout)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize(("rounding", "layout"), LEFT)
def test_others_in_other_layouts(rounding, name: str, layout, full: bool):
    if not full:
        pytest.skip("needs --full")
    check(*fixed(*OTHERS[name], rounding), layout)


@pytest.mark.fast
@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("target", TARGETS[:2])
def test_others_on_targets(target: Target, name: str):
    check(*fixed(*OTHERS[name], "gemmlowp"), NCHW16C, target=target)
