"""SpellArguments: arguments of kernels have names that CUDA C can write."""

import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.lower.spell_arguments import SpellArguments
from relay_int8.graph import dataflow

pytestmark = pytest.mark.fast


def lowered(name):
    """Return the kernel of a function of a tensor with a name, in a module."""
    x = relax.Var(name, relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(relax.op.sin(x))
        builder.emit_func_output(y)
    return relax.transform.LegalizeOps()(builder.get())


def arguments(mod):
    (func,) = (f for f in mod.functions.values() if isinstance(f, tvm.tirx.PrimFunc))
    return [str(var.name) for var in func.params]


def test_odd_names_become_identifiers():
    before = lowered("/conv1/logits:0")
    first, *others = arguments(before)
    assert not first.isidentifier()
    after = SpellArguments()(before)
    assert arguments(after) == ["__conv1_logits_0", *others]
    assert arguments(before)[0] == first
    (func,) = (f for f in after.functions.values() if isinstance(f, tvm.tirx.PrimFunc))
    assert "/conv1" not in func.script()  # every use has the new name


def test_identifiers_stay():
    mod = lowered("logits")
    assert arguments(SpellArguments()(mod)) == arguments(mod)
    assert [str(var.name) for var, _ in dataflow.calls(mod["main"])]
