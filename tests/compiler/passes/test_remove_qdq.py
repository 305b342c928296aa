"""RemoveQdq: a QDQ module without its pairs is the float network."""

import numpy as np
import pytest
import tvm
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler.passes.qdq.insert_qdq import InsertQdq
from relay_int8.compiler.passes.qdq.remove_qdq import RemoveQdq
from relay_int8.graph import dataflow
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from tests.small_networks import NETWORKS, any_params

pytestmark = pytest.mark.fast


def test_a_pair_disappears(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
            with R.dataflow():
                q = R.quantize(x, R.const(0.5), R.const(3, "int8"))
                d = R.dequantize(q, R.const(0.5), R.const(3, "int8"))
                y = R.nn.relu(d)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
            with R.dataflow():
                y = R.nn.relu(x)
                R.output(y)
            return y

    expect_rewrite(RemoveQdq(), Before, Expected)


def test_integers_that_come_from_elsewhere_stay(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(q: R.Tensor((2, 4), "int8")) -> R.Tensor((2, 4), "float32"):
            with R.dataflow():
                d = R.dequantize(q, R.const(0.5), R.const(3, "int8"))
                y = R.nn.relu(d)
                R.output(y)
            return y

    expect_rewrite(RemoveQdq(), Before, Before)


def test_integers_that_leave_stay(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "int8"):
            with R.dataflow():
                r = R.nn.relu(x)
                y = R.quantize(r, R.const(0.5), R.const(3, "int8"))
                R.output(y)
            return y

    expect_rewrite(RemoveQdq(), Before, Before)


@pytest.mark.parametrize("name", NETWORKS)
def test_it_takes_out_what_insert_qdq_puts_in(name):
    mod = NETWORKS[name]()
    plan = annotate(mod, QuantConfig())
    after = RemoveQdq()(InsertQdq(plan, any_params(plan))(mod))
    wanted = list(dataflow.calls(mod["main"]))
    found = list(dataflow.calls(after["main"]))
    assert [var.name for var, _ in found] == [var.name for var, _ in wanted]
    for (_, one), (_, other) in zip(found, wanted, strict=True):
        assert dataflow.operator(one) == dataflow.operator(other)
        pairs = zip(dataflow.arguments(one), dataflow.arguments(other), strict=True)
        for argument, same in pairs:
            if (array := dataflow.constant(same)) is not None:
                np.testing.assert_array_equal(dataflow.constant(argument), array)
            elif isinstance(same, tvm.relax.Var):
                assert argument.name == same.name
