"""FuseIslands: float operators become one kernel, named by what it computes."""

import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.lower.fuse_islands import FuseIslands
from relay_int8.graph import dataflow
from relay_int8.graph.dataflow import FunctionWriter

pytestmark = pytest.mark.fast
R = relax.op


def fused(*, read_twice=False):
    """Return the calls of main for exp(sin(x)), and a sum of it over rows."""
    func = FunctionWriter()
    x = relax.Var("x", relax.TensorType((4, 16), "float32"))
    wave = func.emit("/wave", R.sin(x))
    power = func.emit("/power", R.exp(wave))
    outputs = [func.emit("/sum", R.sum(power, [1]))]
    if read_twice:
        outputs.append(wave)
    mod = func.finish([x], outputs)
    passes = [relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern(), FuseIslands()]
    return list(dataflow.calls(tvm.transform.Sequential(passes)(mod)["main"]))


def test_operators_are_one_kernel_with_the_name_of_its_result():
    ((var, call),) = fused()
    assert str(var.name) == "/sum"
    assert call.op.name_hint.startswith("fused_")


def test_a_tensor_that_is_a_result_too_keeps_its_name():
    assert [str(var.name) for var, _ in fused(read_twice=True)] == ["/wave", "/sum"]
