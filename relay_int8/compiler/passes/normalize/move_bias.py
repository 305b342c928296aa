"""Move the bias of a product in front of the reshape that cuts its channels into heads.

    Before:  m = matmul(x, w);  r = reshape(m, (n, l, heads, depth));  y = add(r, b)
    After:   m = matmul(x, w);  a = add(m, reshape(b, (heads * depth,)));  y = reshape(a, ...)

So the bias belongs to the dense layer, and attention reads its heads. Keras writes it the other
way round.

Place:  after CanonicalizeProduct and CanonicalizeReshape, before FoldAffine.
Exact:  bit-identical.
"""

from __future__ import annotations

import math

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import constant, dtype, operator, shape
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main


@tvm.transform.module_pass(opt_level=0, name="MoveBias")
class MoveBias:
    """Move the bias of a product in front of the reshape that cuts its channels into heads."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with biases beside their products; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _moved)


def _moved(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
    if operator(value) != "add" or dtype(value) != "float32":
        return None
    for heads, other in (value.args, list(reversed(value.args))):
        bias, cut = constant(other), scope.value(heads)
        if bias is None or operator(cut) != "reshape" or bias.ndim > len(shape(heads)):
            continue
        rows = cut.args[0]
        product = scope.value(rows)
        if operator(product) != "matmul" or constant(product.args[1]) is None:
            continue
        parts = _parts(shape(value), shape(rows)[-1])
        if parts < 2 or shape(heads)[-parts:] != shape(value)[-parts:]:
            continue
        if not (scope.used_once(heads) and scope.used_once(rows)):
            return Declined(f"its bias is not that of {rows.name}, which something else reads too")
        if any(extent != 1 for extent in bias.shape[:-parts]):
            return Declined(f"its constant {bias.shape} is not one of {rows.name}'s channels")
        channels = np.broadcast_to(bias, (*bias.shape[:-parts], *shape(value)[-parts:]))
        summed = scope.emit("biased", relax.op.add(rows, relax.const(channels.reshape(-1))))
        return relax.op.reshape(summed, shape(value))
    return None


def _parts(dims: tuple[int, ...], channels: int) -> int:
    """Return how many of the last axes the channels are cut into; 0 if they are not."""
    for count in range(1, len(dims) + 1):
        sizes = (*dims[-count:], channels)
        if not all(isinstance(size, int) for size in sizes):  # the batch is open
            return 0
        if math.prod(dims[-count:]) == channels:
            return count
    return 0
