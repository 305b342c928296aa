"""Give float convolutions, pools and their kin kernels of this project's own.

    Before:  y = relu(conv2d(x, w) + b)
    After:   y = call_dps_packed('{"kind": "conv2d", "x": "float32", ...}', (x, w, b, clamp))

Place:  after Realize, before TVM's own lowering takes what is left.
Exact:  within float rounding; the reduction ascends, so every run gives the same bits.
"""

from __future__ import annotations

import tvm
from tvm import IRModule, relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.graph.groups import find_groups
from relay_int8.graph.origins import Origins
from relay_int8.graph.spec_calls import kernel_call
from relay_int8.operators.registry import float_refusal, operator_of


@tvm.transform.module_pass(opt_level=0, name="LowerFloat")
class LowerFloat:
    """Give float convolutions, pools and their kin kernels of this project's own."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the lowered module; ``mod`` itself is left alone."""
        func = mod["main"]
        values = dict(dataflow.calls(func))
        writer = dataflow.FunctionWriter(func=func)
        origins = Origins(func)
        done: dict[relax.Var, relax.Expr] = {}
        for group in find_groups(func, attention=False, functions=False):
            if not _emit_kernel(group, writer, origins, done):
                for member in group.members:
                    done[member] = writer.emit(
                        member.name, dataflow.substitute(values[member], done)
                    )
        outputs = [done.get(var, var) for var in dataflow.results(func)]
        return writer.finish(func.params, outputs, origins.added_to(dataflow.attributes(func)))


def _emit_kernel(
    group: Group,
    writer: dataflow.FunctionWriter,
    origins: Origins,
    done: dict[relax.Var, relax.Expr],
) -> bool:
    """Write ``group`` as one kernel call; return whether there is a kernel for it."""
    kernel = None if float_refusal(group) else operator_of(group).float_kernel(group)
    if kernel is None:
        return False
    spec, constants = kernel
    inputs = [done.get(var, var) for var in group.inputs]
    if dataflow.shape(inputs[0]) != tuple(spec.shape(spec.tensors[0])):
        flat = relax.op.reshape(inputs[0], spec.shape(spec.tensors[0]))
        source = str(inputs[0].name)
        inputs[0] = writer.derive(f"{group.name}/rows", flat)
        origins.note(inputs[0], source, "reshape")
    var = writer.emit(group.name, kernel_call(spec, inputs, constants))
    if dataflow.shape(group.output) != dataflow.shape(var):
        shaped = relax.op.reshape(var, dataflow.shape(group.output))
        var = writer.derive(f"{group.name}:reshaped", shaped)
        origins.note(var, group.name, "reshape")
    done[group.output] = var
    return True
