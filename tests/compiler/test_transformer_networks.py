"""Norms and softmax in whole networks: the oracle's bits everywhere, in the kernels that follow too."""

import numpy as np
import pytest
import tvm
from tvm.target import Target

from relay_int8.compiler.build import compile_module, kernel_calls, virtual_machine
from relay_int8.graph.batch import with_batch, with_open_batch
from schedules.targets import TARGETS
from tests import reference
from tests.cuda.run_network import EmulatedNetwork
from tests.cuda.run_template import SM_61
from tests.quantized_networks import (
    QuantizedNetwork,
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
    """What kernels of rows give in float32 has the oracle's bits too."""
    built = compile_module(network.mod, Target(TARGETS[target]))
    found = run_built(built, network.inputs)
    assert_found_equals_oracle(network, found)
    for call in built.calls:
        if call.spec and call.spec.kind in ("normalize", "softmax") and call.spec.y == "float32":
            np.testing.assert_array_equal(found[call.name], network.expected[call.name])


def test_equals_oracle_on_emulated_gpu(network):
    found = EmulatedNetwork(network.mod, SM_61).run(network.inputs)
    assert_found_equals_oracle(network, found)


def test_any_batch():
    network = QuantizedNetwork.make(NETWORKS["images"]())
    built = compile_module(with_open_batch(network.mod, 3), Target("llvm"))
    machine = virtual_machine(built)
    for batch in (1, 3):
        x = np.random.default_rng(batch).normal(size=(batch, 3, 10, 9)).astype("float32")
        fixed = with_batch(network.mod, batch)
        (y,) = reference.output_names(fixed, {"x": x})
        expected = reference.run(fixed, {"x": x})[y]
        found = machine["main"](tvm.runtime.tensor(x)).numpy()
        np.testing.assert_array_equal(found, expected)


def test_a_block_with_attention():
    """Norms give integers at once; no kernel of a norm or a softmax is TVM's own."""
    mod = attention()
    network = QuantizedNetwork.make(mod)
    target = Target("llvm")
    calls = kernel_calls(network.mod, target)
    kinds = {call.tensor: (call.spec.kind, call.spec.dtype("y")) for call in calls if call.spec}
    assert kinds["norm"] == kinds["second"] == ("normalize", "int8")
    islands = [call.function for call in calls if not call.spec]
    assert not [name for name in islands if "norm" in name or "softmax" in name]
    y = run_built(compile_module(network.mod, target), network.inputs)["outputs:0"]
    real = float_tensors(mod, network.inputs)["y"]
    assert np.square(y - real).sum() < 0.004 * np.square(real).sum()
