"""Networks with deformable convolutions, offsets and masks and all, give the oracle's integers."""

import numpy as np
import pytest
import tvm
from tvm.target import Target

from relay_int8.compiler.build import compile_module, virtual_machine
from relay_int8.graph.batch import with_batch, with_open_batch
from schedules.targets import TARGETS, native_target
from tests import reference
from tests.deformable_networks import NETWORKS, modulated
from tests.quantized_networks import QuantizedNetwork, assert_found_equals_oracle
from tests.run_built import run_built
from tests.x86_targets import FASTEST, case

CASES = [
    (FASTEST, "plain", "int8"),
    ("x86", "plain", "int8"),
    (FASTEST, "modulated", "int8-asymmetric"),
    case("x86-avx2", "modulated", "int8"),
]


@pytest.mark.parametrize(("target", "name", "preset"), CASES)
def test_equals_oracle(target, name, preset):
    network = QuantizedNetwork.make(NETWORKS[name](), preset=preset)
    floats = {layer.kind for layer in network.plan.layers if not layer.integer}
    assert floats <= {"slice", "sigmoid"}
    found = run_built(compile_module(network.mod, Target(TARGETS[target])), network.inputs)
    samples = [name for name in found if name.endswith("samples")]
    assert [found[name].dtype.itemsize for name in samples] == [1, 1]
    assert_found_equals_oracle(network, found)


def test_open_batch():
    network = QuantizedNetwork.make(modulated())
    machine = virtual_machine(compile_module(with_open_batch(network.mod, 3), native_target()))
    ((name, image),) = network.inputs.items()
    for batch in (1, 3):
        x = np.random.default_rng(batch).normal(size=(batch, *image.shape[1:])).astype("float32")
        fixed = with_batch(network.mod, batch)
        (output,) = reference.output_names(fixed, {name: x})
        found = machine["main"](tvm.runtime.tensor(x)).numpy()
        np.testing.assert_array_equal(found, reference.run(fixed, {name: x})[output])
