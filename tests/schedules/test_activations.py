"""Functions in the epilogue of a layer: near the real ones, and the same bits on every target."""

import dataclasses
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
from tvm.target import Target

from relay_int8.graph.gates import activation_of
from schedules.reference.functions import activated
from schedules.reference.kernels import reference
from schedules.spec import Activation, Conv2d, Dense, from_json, to_json
from schedules.targets import named_target
from schedules.template import ScheduleError
from tests.oracle.gates import REALS, gate_parts, gated
from tests.schedules.conv_runs import conv
from tests.schedules.posed_runs import assert_equals_reference

TARGETS = [
    pytest.param(named_target("x86"), id="plain"),
    pytest.param(named_target("x86-avx2"), id="avx2", marks=pytest.mark.isa("avx2")),
    pytest.param(named_target("x86-vnni"), id="vnni", marks=pytest.mark.isa("avx512_vnni")),
]
LAYERS: dict[str, Conv2d | Dense] = {
    "pointwise": conv(
        20, (5, 7), groups=1, out_channels=40, kernel=(1, 1), padding=(0, 0, 0, 0),
        activation="swish",
    ),
    "window": conv(
        16, (6, 7), groups=1, out_channels=24, x="int8", y="int8", activation="quick_gelu"
    ),
    "stem": conv(3, (9, 10), groups=1, out_channels=16, strides=(2, 2), activation="hard_swish"),
    "depthwise": conv(20, (6, 7), activation="hard_swish"),
    "grouped": conv(32, (6, 7), groups=8, activation="gelu_tanh"),
    "any group": conv(30, (6, 7), groups=6, activation="sigmoid"),
    "dense": Dense(rows=7, n=40, k=24, x="uint8", y="uint8", activation="gelu"),
    "moved": conv(
        20, (5, 7), groups=1, out_channels=40, kernel=(1, 1), padding=(0, 0, 0, 0),
        activation="hard_swish", shifted=True,
    ),
    "moved depthwise": conv(20, (6, 7), activation="swish", shifted=True),
    "moved dense": Dense(rows=7, n=40, k=24, x="uint8", y="uint8", activation="gelu", shifted=True),
    "tanh": conv(20, (6, 7), groups=1, activation="steep_sigmoid", shifted=True),
    "gate": Dense(rows=1, n=37, k=50, x="uint8", y="uint8", activation="hard_sigmoid"),
}  # fmt: skip
BOUNDS = {"hard_sigmoid": 1e-6, "hard_swish": 1e-6, "gelu": 4e-4, "gelu_tanh": 3e-4}
"""Of the largest error; others are logistic."""
NAMES = get_args(Activation)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("target", TARGETS)
def test_equals_the_reference(target: Target, name: str):
    assert_equals_reference(LAYERS[name], target)


def values() -> np.ndarray:
    """Return float32 near zero and far."""
    x = np.random.default_rng(0).normal(size=2000) * np.exp(np.linspace(-4, 8, 2000))
    return np.asarray([0.0, -0.0, 1e30, -1e30, *x], np.float32)


@pytest.mark.fast
@pytest.mark.parametrize("name", NAMES)
def test_equals_the_oracle(name: Activation):
    np.testing.assert_array_equal(activated(name, values()), gated(name, values()))


@pytest.mark.fast
@pytest.mark.parametrize("name", NAMES)
def test_is_near_the_real_function(name: Activation):
    x = np.linspace(-30, 30, 6001).astype(np.float32)
    error = np.abs(activated(name, x) - [REALS[name](float(v)) for v in x])
    assert error.max() < BOUNDS.get(name, 8e-4)


@pytest.mark.fast
@pytest.mark.parametrize("name", NAMES)
def test_is_known_by_its_values(name: Activation):
    function: Callable[[np.ndarray], np.ndarray] = np.vectorize(REALS[name], otypes=[np.float64])
    assert activation_of(function) == gate_parts(function) == (name, 1, 0)


@pytest.mark.fast
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shift", [-0.7, 0.0])
def test_a_scale_and_a_shift_are_known_too(name: Activation, shift: float):
    real: Callable[[np.ndarray], np.ndarray] = np.vectorize(REALS[name], otypes=[np.float64])
    for found in (
        activation_of(lambda x: real(x) * 0.3 + shift),
        gate_parts(lambda x: real(x) * 0.3 + shift),
    ):
        assert found is not None and found[0] == name
        np.testing.assert_allclose(found[1:], (0.3, shift), rtol=1e-12)
    assert activation_of(lambda x: real(x) * -0.3) is None


@pytest.mark.fast
def test_tanh_is_twice_a_steep_sigmoid_less_one():
    assert activation_of(np.tanh) == gate_parts(np.tanh) == ("steep_sigmoid", 2, -1)
    x = np.linspace(-30, 30, 6001).astype(np.float32)
    assert np.abs(2 * activated("steep_sigmoid", x) - 1 - np.tanh(x)).max() < 1.5e-3


@pytest.mark.fast
@pytest.mark.parametrize(
    "function", [np.arctan, np.abs, np.exp, np.log, lambda x: x / (1 + np.exp(-1.71 * x))]
)
def test_others_are_not_known(function: Callable[[np.ndarray], np.ndarray]):
    assert activation_of(function) is None


@pytest.mark.fast
def test_worked_numbers():
    """Hard-swish of 1.5 is 1.125, of -4 zero and of 5 itself; 1.125 are four and a half steps.

    A channel with half the factor has half the steps.
    """
    spec = Dense(rows=1, n=3, k=1, x="uint8", y="uint8", activation="hard_swish")
    params = {
        "w": np.array([[3], [-8], [10]], np.int8), "bias": np.zeros(3, np.int32),
        "m": np.full(3, 0.25, np.float32), "m_y": np.array([4, 4, 2], np.float32),
        "z": np.array([1, 10, 0], np.int32), "clamp": np.array([-10, 245], np.float32),
    }  # fmt: skip
    found = reference(spec, {"x": np.array([[3]], np.uint8)}, params)
    np.testing.assert_array_equal(found, [[14, 10, 20]])
    params["b_y"] = np.array([0.25, -3, 1], np.float32)
    moved = dataclasses.replace(spec, shifted=True)
    found = reference(moved, {"x": np.array([[3]], np.uint8)}, params)
    np.testing.assert_array_equal(found, [[15, 7, 21]])


@pytest.mark.fast
def test_texts_without_a_function_are_as_before():
    spec = LAYERS["dense"]
    assert "activation" not in to_json(dataclasses.replace(spec, activation=None))
    assert from_json(to_json(spec)) == spec


@pytest.mark.fast
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"y": "float32"}, "has no form with float32 x or y"),
        ({"leaky": True}, "has no form with a slope"),
        ({"requantize": "tflite"}, "has no form with the rounding tflite"),
        ({"activation": "tanh"}, "activation 'tanh' is unknown; known are sigmoid"),
        ({"activation": None, "shifted": True}, "shifted takes an activation"),
    ],
)
def test_what_it_cannot_be_with(fields: dict[str, Any], reason: str):
    with pytest.raises(ScheduleError, match=reason):
        dataclasses.replace(LAYERS["pointwise"], **fields)
