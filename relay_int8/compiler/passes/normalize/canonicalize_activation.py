"""Write every bound on values as one relu or clip, every one-slope prelu as leakyrelu.

    Before:  a = maximum(x, 0);  y = minimum(a, 6)
    After:   y = clip(x, 0, 6)

Both bounds finite: clip; [0, inf): relu; one other bound: maximum or minimum by a constant.

Place:  after FoldConstants, before annotate looks for activations.
Exact:  bit-identical, but for the sign of a zero.
"""

from __future__ import annotations

from math import inf

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import constant, dtype, operator, shape
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main

Interval = tuple[float, float]


@tvm.transform.module_pass(opt_level=0, name="CanonicalizeActivation")
class CanonicalizeActivation:
    """Write every bound on values as one relu or clip, every one-slope prelu as leakyrelu."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with canonical activations; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _as_activation)


def _as_activation(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
    if operator(value) == "nn.prelu":
        slopes = constant(value.args[1])
        if slopes is None:
            return Declined(f"its slopes {value.args[1].name} are no constant")
        if slopes.size != 1:
            return None
        return relax.op.nn.leakyrelu(value.args[0], float(slopes.reshape(())))
    interval = _interval(value)
    if not isinstance(interval, tuple):
        return interval
    x, (low, high) = interval
    inner = _interval(scope.value(x))
    if not isinstance(inner, tuple) or not scope.used_once(x):
        if operator(value) == "nn.relu" or _is_closed_clip(value, low, high):
            both = isinstance(inner, tuple)
            return Declined(f"{x.name} bounds too, but has other readers") if both else None
        inner = None
    if inner is not None:
        x, (inner_low, inner_high) = inner
        low, high = min(max(inner_low, low), high), min(max(inner_high, low), high)
    return _bounded(x, low, high)


def _is_closed_clip(value: relax.Call, low: float, high: float) -> bool:
    return operator(value) == "clip" and bool(np.isfinite(low) and np.isfinite(high))


def _interval(value: relax.Expr) -> tuple[relax.Expr, Interval] | Declined | None:
    """Return operand and bounds of a call that only bounds values."""
    op = operator(value)
    if op == "nn.relu":
        return value.args[0], (0.0, inf)
    if op == "clip":
        low, high = (float(bound.value) for bound in value.args[1:])
        return value.args[0], (low, high)
    if op not in ("maximum", "minimum"):
        return None
    declined = None
    for x, bound in (value.args, reversed(value.args)):
        array = constant(bound)
        if array is None:
            continue
        if array.size == 1 and shape(x) == shape(value):
            limit = float(array.reshape(()))
            return x, ((limit, inf) if op == "maximum" else (-inf, limit))
        declined = Declined(
            f"its bound is {array.size} numbers, not one"
            if array.size > 1
            else f"its bound makes {shape(value)} of {shape(x)}"
        )
    return declined


def _bounded(x: relax.Expr, low: float, high: float) -> relax.Expr:
    if (low, high) == (0.0, inf):
        return relax.op.nn.relu(x)
    if np.isfinite(low) and np.isfinite(high):
        return relax.op.clip(x, relax.prim_value(low), relax.prim_value(high))
    if np.isfinite(low):
        return relax.op.maximum(x, relax.const(low, dtype(x)))
    return relax.op.minimum(x, relax.const(high, dtype(x))) if np.isfinite(high) else x
