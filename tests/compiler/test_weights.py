"""Large constants become arguments of ``main``: which, in which order, with the same results."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler import weights
from relay_int8.compiler.build import compile_module, finalized, virtual_machine
from relay_int8.compiler.memory import memory_of
from relay_int8.compiler.weights import inputs_of, lift_weights
from relay_int8.graph import dataflow
from schedules.targets import TARGETS
from tests.quantized_networks import QuantizedNetwork
from tests.small_networks import NETWORKS, NetworkWriter, any_params
from tests.x86_targets import FASTEST

pytestmark = pytest.mark.fast

LARGE = np.arange(1024, dtype="float32").reshape(32, 32)
OTHER = LARGE + 1
SMALL = np.ones((31, 32), "float32")  # 128 bytes less than a page


@I.ir_module
class Net:
    @R.function
    def main(x: R.Tensor((32, 32), "float32"), z: R.Tensor((31, 32), "float32")):
        with R.dataflow():
            a = R.add(x, R.const(OTHER))
            b = R.multiply(a, R.const(LARGE))
            y = R.maximum(b, R.const(OTHER.copy()))
            s = R.add(z, R.const(SMALL))
            R.output(y, s)
        return (y, s)


def final(mod):
    with tvm.target.Target({"kind": "llvm"}):
        return finalized(tvm.relax.transform.LegalizeOps()(mod), cuda_graphs=False)


def kernel_arguments(mod):
    """Return the arguments of each kernel call, the result left out."""
    bindings = [item for block in mod["main"].body.blocks for item in block.bindings]
    values = [item.value for item in bindings if isinstance(item.value, tvm.relax.Call)]
    return [list(v.args)[:-1] for v in values if isinstance(v.op, tvm.ir.GlobalVar)]


def test_large_constants_are_parameters_equal_ones_one_small_ones_stay():
    lifted, arrays = lift_weights(final(Net))
    main = lifted["main"]
    assert [str(param.name) for param in main.params] == ["x", "z", "weights_0", "weights_1"]
    assert [str(param.name) for param in inputs_of(main)] == ["x", "z"]
    for found, wanted in zip(arrays, (OTHER, LARGE), strict=True):
        np.testing.assert_array_equal(found, wanted)
    x, z, first, second = main.params
    add, multiply, maximum, small = kernel_arguments(lifted)
    assert add[0].same_as(x) and add[1].same_as(first)
    assert multiply[1].same_as(second) and maximum[1].same_as(first)
    assert small[0].same_as(z)
    np.testing.assert_array_equal(dataflow.constant(small[1]), SMALL)
    assert memory_of(lifted)["constant_bytes"] == SMALL.nbytes


def test_the_module_itself_stays_as_it_was():
    before = final(Net)
    copy = before.clone()
    lift_weights(before)
    assert tvm_ffi.structural_equal(before, copy)
    assert len(inputs_of(before["main"])) == 2


def test_without_large_constants_nothing_changes():
    @I.ir_module
    class Small:
        @R.function
        def main(x: R.Tensor((31, 32), "float32")):
            with R.dataflow():
                y = R.add(x, R.const(SMALL))
                R.output(y)
            return y

    before = final(Small)
    lifted, arrays = lift_weights(before)
    assert lifted.same_as(before) and arrays == ()


@pytest.mark.parametrize("name", ["residual", "dense blocks"])
def test_integers_are_the_same(name, monkeypatch):
    monkeypatch.setattr(weights, "LEAST_BYTES", 1)
    network = QuantizedNetwork.make(NETWORKS[name](), any_params)
    target = tvm.target.Target({**TARGETS[FASTEST], "opt-level": 0})
    inside = compile_module(network.mod, target)
    apart = compile_module(network.mod, target, weights_apart=True)
    assert not inside.weights and len(apart.weights) > 3
    assert apart.memory == inside.memory and apart.calls == inside.calls
    tensors = [tvm.runtime.tensor(x) for x in network.inputs.values()]
    wanted, found = (virtual_machine(built)["main"](*tensors) for built in (inside, apart))
    if isinstance(wanted, tvm.runtime.Tensor):
        wanted, found = [wanted], [found]
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_gpus_keep_their_constants():
    net = NetworkWriter((1, 64))
    mod = net.module(net.emit("y", tvm.relax.op.matmul(net.x, net.constant(64, 64))))
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_80"}, host="llvm")
    assert not compile_module(mod, target, weights_apart=True).weights
    assert compile_module(mod, tvm.target.Target({"kind": "llvm"}), weights_apart=True).weights
