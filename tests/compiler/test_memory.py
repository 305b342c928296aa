"""The bytes that a network reserves, counted by hand."""

import numpy as np
import pytest
import tvm
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler.build import finalized
from relay_int8.compiler.memory import memory_of

pytestmark = pytest.mark.fast

CONSTANT = np.ones((100, 10), "float32")


def planned(mod):
    legal = tvm.relax.transform.LegalizeOps()(mod)
    with tvm.target.Target({"kind": "llvm"}):
        return memory_of(finalized(legal, cuda_graphs=False))


def test_tensors_in_turn_share_memory_and_the_output_counts():
    """Three sums of 4000 bytes and a maximum: two storages, and the output."""

    @I.ir_module
    class Chain:
        @R.function
        def main(x: R.Tensor((100, 10), "float32")):
            with R.dataflow():
                a = R.add(x, R.const(CONSTANT))
                b = R.add(a, R.const(2 * CONSTANT))
                c = R.add(b, x)
                y = R.nn.relu(c)
                R.output(y)
            return y

    assert planned(Chain) == {"constant_bytes": 8000, "activation_bytes": 12000}


def test_an_open_batch_counts_at_its_largest_but_for_the_output():
    @I.ir_module
    class Open:
        @R.function
        def main(x: R.Tensor(("n", 10), "float32")):
            R.func_attr({"tir_var_upper_bound": {"n": 8}})
            with R.dataflow():
                a = R.add(x, x)
                y = R.nn.relu(a)
                R.output(y)
            return y

    assert planned(Open) == {"constant_bytes": 0, "activation_bytes": 8 * 10 * 4}
