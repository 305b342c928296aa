"""Networks with deformable convolutions, offsets and all, give the oracle's integers."""

from dataclasses import replace

import pytest
from tvm.target import Target

from relay_int8.build import compile_module
from schedules.targets import TARGETS
from tests import reference
from tests.deformable_networks import NETWORKS
from tests.quantized_networks import Inputs, QuantizedNetwork, assert_found_equals_oracle
from tests.run_built import run_built
from tests.x86_targets import X86


def assert_equals_oracle(network: QuantizedNetwork, found: Inputs) -> None:
    """Compare all integers with those of the oracle, given the masks that float operators made."""
    names = reference.output_names(network.mod, network.inputs)
    masks = {name: found[f"outputs:{place}"] for place, name in enumerate(names) if place}
    expected = reference.run(network.mod, network.inputs, given=masks)
    assert_found_equals_oracle(replace(network, expected=expected), found)


@pytest.fixture(scope="module", params=[("plain", "int8"), ("modulated", "int8-asymmetric")])
def network(request) -> QuantizedNetwork:
    name, preset = request.param
    return QuantizedNetwork.make(NETWORKS[name](), preset=preset)


def test_all_but_places_are_integers(network):
    floats = {layer.kind for layer in network.plan.layers if not layer.integer}
    assert floats <= {"slice", "sigmoid"}
    assert sum(layer.kind == "sample2d" for layer in network.plan.layers) == 2


@pytest.mark.parametrize("target", X86)
def test_equals_oracle(network, target):
    built = compile_module(network.mod, Target(TARGETS[target]))
    assert_equals_oracle(network, run_built(built, network.inputs))
