"""Read a part of a concat where it comes from.

    Before:  y = concat(a, b);  z = strided_slice(y, within b)
    After:   z = strided_slice(b, ...), or b itself

Programs that write over a part of a tensor are such: ``points[..., 0] /= width`` and then the same
of height. A concat in integers has one scale, so a coordinate between 0 and 1 beside one of up to
1024 would lose all of its steps on the way.

Place:  after ReplaceSplit, before whatever knows patterns of slices.
Exact:  bit-identical.
"""

from __future__ import annotations

import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import operator, shape, slice_steps
from relay_int8.graph.rewriting import Scope, rewrite_main


@tvm.transform.module_pass(opt_level=0, name="ReadParts")
class ReadParts:
    """Read a part of a concat where it comes from."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` without slices of one operand of a concat; ``mod`` is left alone."""
        return rewrite_main(mod.clone(), _read_where_it_is)


def _read_where_it_is(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    """Return a slice of what a concat joins; None if it is no such slice."""
    read = None
    while (part := _of_an_operand(scope, value)) is not None:
        read = value = part  # which may be a slice of a concat again
        if not isinstance(part, relax.Call):
            break
    return read


def _of_an_operand(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    """Return a slice of a concat as one of the operand that it lies in, or None."""
    if not isinstance(value, relax.Call) or operator(value) != "strided_slice":
        return None
    joined = scope.value(value.args[0])
    if operator(joined) != "concat":
        return None
    begins, steps = slice_steps(value)
    axis = int(joined.attrs.axis) % len(begins)
    sizes = shape(value)
    if steps[axis] != 1 or min(steps) < 1 or not sizes[axis]:
        return None
    start = 0
    for operand in joined.args[0].fields:
        end = start + shape(operand)[axis]
        if start <= begins[axis] and begins[axis] + sizes[axis] <= end:
            begins[axis] -= start
            return scope.typed(_slice(operand, begins, steps, sizes))
        start = end
    return None


def _slice(
    x: relax.Expr, begins: list[int], steps: list[int], sizes: tuple[int, ...]
) -> relax.Expr:
    """Return some elements along each axis, or a tensor itself where these are all."""
    axes = [
        axis
        for axis, (step, size, extent) in enumerate(zip(steps, sizes, shape(x), strict=True))
        if step != 1 or size != extent
    ]
    if not axes:
        return x
    ends = [begins[axis] + (sizes[axis] - 1) * steps[axis] + 1 for axis in axes]
    strides = [steps[axis] for axis in axes]
    return relax.op.strided_slice(x, axes, [begins[axis] for axis in axes], ends, strides)
