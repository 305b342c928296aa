"""Slopes and functions of sums with a residual, and residuals added behind them: one kernel each."""

import numpy as np
import pytest

from relay_int8.compiler.passes.lower.realize import realized_groups
from relay_int8.graph.groups import find_groups
from relay_int8.graph.plan import Plan
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from tests.quantized_networks import QuantizedNetwork, adopted_again, assert_simulated
from tests.small_networks import sums

OF_SUMS, BEHIND = {"prelu", "swish"}, {"relu", "slope", "silu", "hard"}


@pytest.fixture(scope="module")
def quantized() -> QuantizedNetwork:
    return QuantizedNetwork.make(sums())


@pytest.mark.fast
def test_they_are_integers(quantized: QuantizedNetwork):
    integer = {group.name for group, why in realized_groups(quantized.mod) if why is None}
    assert integer == {"x0", "y", *OF_SUMS, *BEHIND}
    for name in (*OF_SUMS, *BEHIND):
        assert np.unique(quantized.expected[f"{name}:q"]).size > 20, name


@pytest.mark.fast
def test_they_are_one_layer():
    mod = sums()
    plan = annotate(mod, QuantConfig())
    assert {layer.name for layer in plan.layers} == {"x0", "y", *OF_SUMS, *BEHIND}
    assert {layer.kind for layer in plan.layers} == {"conv2d"}


@pytest.mark.fast
@pytest.mark.parametrize(
    ("config", "apart"),
    [
        (QuantConfig(exclude=("silu",)), {"silu", "silu/of"}),
        (QuantConfig(exclude=("hard",)), {"hard", "hard/of"}),
        (QuantConfig(exclude=("a",)), {"a", "prelu", "a/conv"}),
        (QuantConfig(requantize="gemmlowp"), {"a", "prelu", "b", "swish", "silu/of", "hard/of"}),
    ],
    ids=["an addition", "another", "an addition before", "fixed point"],
)
def test_what_stays_apart(config: QuantConfig, apart: set[str]):
    mod = sums()
    plan = annotate(mod, config)
    assert apart <= {layer.name for layer in plan.layers}
    assert Plan.from_json(plan.to_json()).additions == plan.additions
    groups = [group.name for group in find_groups(mod["main"], plan.additions)]
    assert groups == [layer.name for layer in plan.layers]


@pytest.mark.fast
def test_numpy_simulates_the_integers():
    assert_simulated(sums())


@pytest.mark.fast
def test_an_adopted_file_keeps_them(quantized: QuantizedNetwork):
    again = adopted_again(quantized, (*OF_SUMS, *BEHIND))
    assert {layer.name for layer in again.plan.layers} == {"x0", "y", *OF_SUMS, *BEHIND}


@pytest.mark.fast
def test_floats_have_slopes_in_one_kernel():
    groups = find_groups(sums()["main"], attention=False, functions=False)
    assert {"prelu", "relu", "slope"} <= {group.name for group in groups if group.kind == "conv2d"}
