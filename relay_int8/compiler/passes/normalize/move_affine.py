"""Move a positive factor, or what is added, behind the bounds of a layer in front of them.

    Before:  c = conv2d(x, w);  s = add(c, b);  k = clip(s, 0, 6);  y = divide(k, 6)
    After:   c = conv2d(x, w);  s = add(c, b);  t = multiply(s, 1 / 6);  y = clip(t, 0, 1)

    Before:  c = conv2d(x, w);  k = relu(c);  y = add(k, 2)
    After:   c = conv2d(x, w);  t = add(c, 2);  y = clip(t, 2, inf)

So they are folded into weights and bias, and the bounds into the layer's epilogue: hard-sigmoid
behind a convolution, which PyTorch and Keras write so, and the learned affine blocks of PP-HGNetV2
and D-FINE are one layer and not a table behind another.

Place:  after CanonicalizeActivation, before FoldAffine.
Exact:  within float32 rounding of the factor and of what is added.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.channel_affine import channel_arithmetic
from relay_int8.graph.contractions import LAYERS
from relay_int8.graph.dataflow import constant, dtype, operator
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main

BOUNDS = ("clip", "nn.relu")


@tvm.transform.module_pass(opt_level=0, name="MoveAffine")
class MoveAffine:
    """Move a positive factor, or what is added, behind the bounds of a layer in front of them."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with such arithmetic moved; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _moved)


def _moved(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
    step = channel_arithmetic(value)
    if step is None or dtype(value) != "float32":
        return None
    x, (scales, shifts) = step
    bounds, scale, shift = scope.value(x), np.unique(scales), np.unique(shifts)
    if operator(bounds) not in BOUNDS or scale.size != 1 or shift.size != 1:
        return None
    if not (0 < scale[0] < np.inf and np.isfinite(shift[0])):
        return None
    inner = bounds.args[0]
    if not _is_of_layer(scope, inner):
        return None
    if not scope.used_once(x):
        return Declined(f"it is not moved in front of {x.name}, which something else reads too")
    moved = scope.emit("moved", _with_operand(value, x, inner))
    if operator(bounds) == "nn.relu":
        if shift[0] == 0:
            return relax.op.nn.relu(moved)
        low, high = 0.0, np.inf
    else:
        low, high = (float(bound.value) for bound in bounds.args[1:])
    ends = (relax.prim_value(float(scale[0] * end + shift[0])) for end in (low, high))
    return relax.op.clip(moved, *ends)


def _with_operand(value: relax.Call, old: relax.Var, new: relax.Expr) -> relax.Call:
    """Return the same arithmetic of another tensor."""
    return relax.Call(value.op, [new if arg.same_as(old) else arg for arg in value.args])


def _is_of_layer(scope: Scope, x: relax.Expr) -> bool:
    """Whether ``x`` is a layer's result and constants a channel, that nothing else reads."""
    while scope.used_once(x):
        value = scope.value(x)
        if operator(value) in LAYERS:
            return constant(value.args[1]) is not None
        if isinstance(value, relax.TupleGetItem):
            norm = scope.value(value.tuple_value)
            if operator(norm) != "nn.batch_norm":
                return False
            x = norm.args[0]
            continue
        step = channel_arithmetic(value)
        if step is None:
            return False
        x = step[0]
    return False
