"""HalveFloats: convolutions and dense layers that stay float multiply float16."""

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.target import Target

from relay_int8.compiler.passes.lower.halve_floats import HalveFloats
from relay_int8.compiler.passes.lower.lower_float import LowerFloat
from relay_int8.compiler.passes.lower.realize import Realize
from relay_int8.compiler.passes.qdq.insert_qdq import InsertQdq
from relay_int8.graph import dataflow
from relay_int8.graph.spec_calls import operands, spec_of
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from schedules.targets import TARGETS
from tests.small_networks import NetworkWriter, any_params, nn

pytestmark = pytest.mark.fast
GPU = Target({"kind": "cuda", "arch": "sm_61"}, host="llvm")
CPU = Target(TARGETS["x86-vnni"])


def network() -> tvm.IRModule:
    """Return a convolution, a depthwise one, and a product."""
    net = NetworkWriter((1, 4, 6, 6))
    a = net.conv("a", net.x, 8, 3)
    d = net.conv("d", a, 8, 3, groups=8)
    flat = net.emit("flat", relax.op.reshape(d, (1, 32)))
    return net.module(net.emit("y", relax.op.matmul(flat, net.constant(32, 3))))


def halves(mod: tvm.IRModule) -> dict[str, bool]:
    """Return which kernels with products multiply float16."""
    specs = {str(var.name): spec_of(value) for var, value in dataflow.calls(mod["main"])}
    return {name: spec.half for name, spec in specs.items() if hasattr(spec, "half")}


def test_products_are_halved_where_the_target_has_kernels():
    lowered = LowerFloat()(network())
    original = lowered.clone()
    after = HalveFloats(GPU)(lowered)
    tvm.ir.assert_structural_equal(lowered, original)
    assert not any(halves(lowered).values())
    assert halves(after) == {"a": True, "d": False, "y": True}  # no depthwise one multiplies so
    before = dict(dataflow.calls(lowered["main"]))
    for (_, old), (_, new) in zip(before.items(), dataflow.calls(after["main"]), strict=True):
        if spec_of(old) is not None:  # constants stay: AlterLayout rounds the weights
            for name, array in operands(old, spec_of(old))[1].items():
                np.testing.assert_array_equal(operands(new, spec_of(new))[1][name], array)


def test_a_cpu_has_no_such_kernels(expect_rewrite):
    lowered = LowerFloat()(network())
    expect_rewrite(HalveFloats(CPU), lowered, lowered)


def test_integer_layers_stay(expect_rewrite):
    mod = network()
    plan = annotate(mod, QuantConfig())
    integers = LowerFloat()(Realize()(InsertQdq(plan, any_params(plan))(mod)))
    expect_rewrite(HalveFloats(GPU), integers, integers)


def test_a_weight_that_float16_has_as_infinite_stays(expect_rewrite):
    net = NetworkWriter((1, 4, 6, 6))
    w = np.ones((2, 4, 1, 1), "float32")
    w[1, 2] = -65520
    lowered = LowerFloat()(net.module(net.emit("y", nn.conv2d(net.x, relax.const(w)))))
    expect_rewrite(HalveFloats(GPU), lowered, lowered)
