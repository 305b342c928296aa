"""Norms and softmax in whole networks: the oracle's bits everywhere, in the kernels that follow too."""

import numpy as np
import pytest
from tvm.target import Target

from relay_int8.compiler.build import compile_module, kernel_calls
from schedules.targets import TARGETS
from tests.cuda.run_network import EmulatedNetwork
from tests.cuda.run_template import SM_61
from tests.quantized_networks import (
    QuantizedNetwork,
    assert_equals_oracle,
    assert_found_equals_oracle,
    float_tensors,
)
from tests.run_built import run_built
from tests.transformer_networks import NETWORKS, attention
from tests.x86_targets import X86


@pytest.fixture(scope="module", params=NETWORKS)
def network(request) -> QuantizedNetwork:
    return QuantizedNetwork.make(NETWORKS[request.param](), preset="int8-symmetric")


@pytest.mark.parametrize("target", X86)
def test_equals_oracle(network, target):
    assert_equals_oracle(network, Target(TARGETS[target]))


def test_equals_oracle_on_emulated_gpu(network):
    found = EmulatedNetwork(network.mod, SM_61).run(network.inputs)
    assert_found_equals_oracle(network, found)


@pytest.mark.parametrize("name", NETWORKS)
def test_floats_that_kernels_of_rows_give_are_the_oracles(name):
    network = QuantizedNetwork.make(NETWORKS[name]())
    found = run_built(compile_module(network.mod, Target("llvm")), network.inputs)
    calls = kernel_calls(network.mod, Target("llvm"))
    floats = [c for c in calls if c.spec and c.spec.kind in ("normalize", "softmax")]
    for call in floats:
        if call.spec.y == "float32" and call.name in network.expected:
            np.testing.assert_array_equal(found[call.name], network.expected[call.name])


def test_a_block_with_attention():
    """Norms give integers at once; no kernel of a norm or a softmax is TVM's own."""
    mod = attention()
    network = QuantizedNetwork.make(mod)
    target = Target("llvm")
    calls = kernel_calls(network.mod, target)
    kinds = {call.tensor: (call.spec.kind, call.spec.dtype("y")) for call in calls if call.spec}
    assert kinds["norm"] == kinds["second"] == ("normalize", "int8")
    assert kinds["shares"] == ("softmax", "float32")
    assert not any("norm" in call.function for call in calls if not call.spec)
    y = run_built(compile_module(network.mod, target), network.inputs)["outputs:0"]
    real = float_tensors(mod, network.inputs)["y"]
    assert np.square(y - real).sum() < 0.004 * np.square(real).sum()
