"""Write a split as slices.

    Before:  parts = split(x, sections, axis);  y = parts[1]
    After:   y = strided_slice(x, ...)

    Before:  y = split(x, 1, axis), which is a tensor, not a tuple of one
    After:   y = strided_slice(x, ...)

Place:  before FoldConstants, which computes slices of constants, and before CanonicalizeSequence
        and CanonicalizeQdq, which know slices alone.
Exact:  bit-identical.
"""

from __future__ import annotations

import tvm
from tvm import IRModule, relax

from relay_int8.graph import dataflow


@tvm.transform.module_pass(opt_level=0, name="ReplaceSplit")
class ReplaceSplit:
    """Write a split as slices."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module without splits; ``mod`` itself is left alone."""
        func = mod["main"]
        splits = {
            var: call for var, call in dataflow.calls(func) if dataflow.operator(call) == "split"
        }
        alone = {var for var in splits if isinstance(var.ty, relax.TensorType)}
        writer = dataflow.FunctionWriter(mod)
        done: dict[relax.Var, relax.Expr] = {}
        for var, value in dataflow.calls(func):
            if var in alone:
                value = _slice(splits[var], 0)
            elif var in splits:
                continue
            elif isinstance(value, relax.TupleGetItem) and value.tuple_value in splits:
                value = _slice(splits[value.tuple_value], value.index)
            done[var] = writer.emit(var.name, dataflow.substitute(value, done))
        outputs = [done.get(var, var) for var in dataflow.results(func)]
        return writer.finish(func.params, outputs, dataflow.attributes(func))


def _slice(split: relax.Call, part: int) -> relax.Call:
    source, axis = split.args[0], int(split.attrs.axis)
    extent = dataflow.shape(source)[axis]
    sections = split.attrs.indices_or_sections
    if isinstance(sections, int | tvm.tirx.IntImm):
        size = -(-extent // int(sections))
        bounds = [min(size * i, extent) for i in range(int(sections) + 1)]
    else:
        bounds = [0, *(int(index) for index in sections), extent]
    return relax.op.strided_slice(source, [axis], [bounds[part]], [bounds[part + 1]])
