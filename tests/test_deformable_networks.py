"""Networks with deformable convolutions, offsets and masks and all, give the oracle's integers."""

import pytest
from tvm.target import Target

from relay_int8.build import compile_module
from schedules.targets import TARGETS
from tests.deformable_networks import NETWORKS
from tests.quantized_networks import QuantizedNetwork, assert_found_equals_oracle
from tests.run_built import run_built
from tests.x86_targets import X86


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
    found = run_built(compile_module(network.mod, Target(TARGETS[target])), network.inputs)
    samples = [name for name in found if name.endswith("samples")]
    assert [found[name].dtype.itemsize for name in samples] == [1, 1]
    assert_found_equals_oracle(network, found)
