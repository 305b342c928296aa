"""Move a positive factor behind the bounds of a layer in front of them.

    Before:  c = conv2d(x, w);  s = add(c, b);  k = clip(s, 0, 6);  y = divide(k, 6)
    After:   c = conv2d(x, w);  s = add(c, b);  t = multiply(s, 1 / 6);  y = clip(t, 0, 1)

So the factor is folded into the weights, and the bounds into the layer's epilogue: hard-sigmoid
behind a convolution, which PyTorch and Keras write so, is one layer and not a table behind another.

Place:  after CanonicalizeActivation, before FoldAffine.
Exact:  within float32 rounding of the factor.
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


@tvm.transform.module_pass(opt_level=0, name="MoveScale")
class MoveScale:
    """Move a positive factor behind the bounds of a layer in front of them."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with such factors moved; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _moved)


def _moved(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
    if operator(value) not in ("divide", "multiply") or dtype(value) != "float32":
        return None
    step = channel_arithmetic(value)
    if step is None:
        return None
    x, (scale, _) = step
    bounds, factors = scope.value(x), np.unique(scale)
    if operator(bounds) not in BOUNDS or factors.size != 1 or not 0 < factors[0] < np.inf:
        return None
    inner = bounds.args[0]
    if not _is_of_layer(scope, inner):
        return None
    if not scope.used_once(x):
        return Declined(f"it is not moved in front of {x.name}, which something else reads too")
    factor = float(factors[0])
    scaled = scope.emit("scaled", relax.op.multiply(inner, relax.const(factor, "float32")))
    if operator(bounds) == "nn.relu":
        return relax.op.nn.relu(scaled)
    low, high = (relax.prim_value(float(bound.value) * factor) for bound in bounds.args[1:])
    return relax.op.clip(scaled, low, high)


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
