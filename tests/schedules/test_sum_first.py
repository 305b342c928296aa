"""Slopes and functions before and after a residual is added, in every kernel of a convolution."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from tvm.target import Target

from schedules.reference.kernels import reference
from schedules.spec import from_json, to_json
from schedules.targets import named_target
from schedules.template import ScheduleError
from tests.schedules.conv_runs import conv
from tests.schedules.numpy_kernels import random_arrays
from tests.schedules.numpy_kernels import reference as other_reference
from tests.schedules.posed_runs import assert_equals_reference

TARGETS = [
    pytest.param(named_target("x86"), id="plain"),
    pytest.param(named_target("x86-avx2"), id="avx2", marks=pytest.mark.isa("avx2")),
    pytest.param(named_target("x86-vnni"), id="vnni", marks=pytest.mark.isa("avx512_vnni")),
]
POINT: dict[str, Any] = {"kernel": (1, 1), "padding": (0, 0, 0, 0)}
FAMILIES = {
    "pointwise": conv(20, (5, 7), groups=1, out_channels=40, **POINT),
    "window": conv(16, (6, 7), groups=1, out_channels=24, x="int8", y="int8"),
    "narrow": conv(16, (6, 7), groups=1, out_channels=6),
    "depthwise": conv(20, (6, 7)),
    "grouped": conv(32, (6, 7), groups=8),
    "any group": conv(30, (6, 7), groups=6),
    "stem": conv(3, (9, 10), groups=1, out_channels=16, strides=(2, 2)),
}
ENDS: dict[str, dict[str, Any]] = {
    "slope of the sum": {"residual": "int8", "leaky": True, "sum_first": True},
    "swish of the sum": {"residual": "uint8", "activation": "swish", "sum_first": True},
    "sum of a slope": {"residual": "uint8", "leaky": True},
    "sum of a hard-swish": {"residual": "int8", "activation": "hard_swish"},
    "moved swish of the sum": {
        "residual": "uint8",
        "activation": "swish",
        "sum_first": True,
        "shifted": True,
    },
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("target", TARGETS)
def test_equals_the_reference(target: Target, family: str, end: str):
    assert_equals_reference(dataclasses.replace(FAMILIES[family], **ENDS[end]), target)


@pytest.mark.fast
@pytest.mark.parametrize("x", ["uint8", "float32"])
def test_a_slope_is_of_the_sum(x: str):
    fields = dict.fromkeys(("x", "y", "residual"), x)
    spec = conv(8, (4, 5), groups=1, out_channels=12, leaky=True, sum_first=True, **fields)
    arrays = random_arrays(spec, np.random.default_rng(2))
    tensors, params = (
        {name: arrays[name] for name in names} for names in (spec.tensors, spec.params)
    )
    found, wanted = reference(spec, tensors, params), other_reference(spec, arrays)
    if x == "uint8":
        np.testing.assert_array_equal(found, wanted)
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    last = dataclasses.replace(spec, sum_first=False)
    arrays["m_neg"] = arrays.get("m", arrays["bias"]) * np.float32(-0.5)
    params = {name: arrays[name] for name in last.params}
    assert (reference(last, tensors, params) != found).mean() > 0.2


@pytest.mark.fast
def test_worked_numbers():
    """Sums of 2 and -8 with residuals of -6 and 5: -4 and -3, of which a quarter is -1 and -0.75.

    In steps of half: -2, and -1.5, which is rounded to even. Hard-swish of 2 is 5/3, and 5/3 - 6 is
    -13/3, -8.67 steps.
    """
    spec = conv(
        1, (1, 2), kernel=(1, 1), padding=(0,) * 4, residual="int8", leaky=True, sum_first=True
    )
    params = {
        "w": np.full((1, 1, 1, 1), 2, np.int8), "bias": np.zeros(1, np.int32),
        "m": np.ones(1, np.float32), "m_r": np.ones(1, np.float32),
        "alpha": np.full(1, 0.25, np.float32),
        "z": np.array([9, 100, 0], np.int32), "clamp": np.array([-100, 155], np.float32),
    }  # fmt: skip
    params |= {"m": params["m"] * 2, "m_r": params["m_r"] * 2}
    tensors = {
        "x": np.array([10, 5], np.uint8).reshape(1, 1, 1, 2),
        "r": np.array([-6, 5], np.int8).reshape(1, 1, 1, 2),
    }
    assert reference(spec, tensors, params).ravel().tolist() == [98, 98]
    behind = dataclasses.replace(spec, leaky=False, sum_first=False, activation="hard_swish")
    params |= {"m": np.ones(1, np.float32), "m_y": np.full(1, 2, np.float32)}
    assert reference(behind, tensors, params).ravel().tolist() == [91, 110]


@pytest.mark.fast
def test_texts_without_it_are_as_before():
    spec = dataclasses.replace(FAMILIES["pointwise"], **ENDS["sum of a slope"])
    assert "sum_first" not in to_json(spec)
    first = dataclasses.replace(spec, sum_first=True)
    assert from_json(to_json(first)) == first


@pytest.mark.fast
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"leaky": True}, "takes a residual, and a slope"),
        ({"residual": "uint8"}, "takes a residual, and a slope"),
        ({"residual": "uint8", "leaky": True, "requantize": "tflite"}, "no form with the rounding"),
    ],
)
def test_what_it_cannot_be_without(fields: dict[str, Any], reason: str):
    with pytest.raises(ScheduleError, match=reason):
        conv(16, (3, 4), sum_first=True, **fields)
