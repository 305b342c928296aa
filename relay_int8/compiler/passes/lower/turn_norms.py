"""Normalize the channels of an image where they are, not between two transpositions.

    Before:  t = call_dps_packed('{"kind": "move", "move": "transpose", ...}', (x,))     to NHWC
             n = call_dps_packed('{"kind": "normalize", "axes": 1, ...}', (t, ...))
             y = call_dps_packed('{"kind": "move", "move": "transpose", ...}', (n,))     to NCHW
    After:   y = call_dps_packed('{"kind": "normalize", "pixels": true, ...}', (x, ...))

ConvNeXt and its kin are so. Of images whose channels fill whole blocks, which is how they lie.

Place:  after JoinQuantize, whose integers the second transposition moves; on CPUs.
Exact:  bit-identical; a row has the same elements in the same order.
"""

from __future__ import annotations

import dataclasses

import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import shape
from relay_int8.graph.rewriting import Scope, rewrite_main
from relay_int8.graph.spec_calls import kernel_call, operands, spec_of
from schedules.layout import NCHW16C
from schedules.spec import Move, Normalize

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
"""Orders of axes that put the channels of an image last, and back."""


@tvm.transform.module_pass(opt_level=0, name="TurnNorms")
class TurnNorms:
    """Normalize the channels of an image where they are, not between two transpositions."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with fewer kernels; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _turned)


def _turned(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    norm = _transposed(value, FIRST)
    if norm is None or not scope.used_once(norm):
        return None
    call = scope.value(norm)
    spec = spec_of(call)
    if not isinstance(spec, Normalize) or spec.axes != 1 or spec.channels % NCHW16C.block:
        return None
    (rows,), params = operands(call, spec)
    image = _transposed(scope.value(rows), LAST)
    if image is None:
        return None
    turned = dataclasses.replace(spec, dims=shape(image), axes=0, pixels=True)
    return kernel_call(turned, [image], params)


def _transposed(value: relax.Expr, order: tuple[int, ...]) -> relax.Expr | None:
    """Return what ``value`` transposes so, or None."""
    spec = spec_of(value)
    if not isinstance(spec, Move) or spec.move != "transpose" or spec.arguments != order:
        return None
    (tensor,), _ = operands(value, spec)
    return tensor
