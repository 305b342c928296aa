"""Scaled dot-product attention, written in matrix products and a softmax.

    softmax(q @ k^T * scale + mask) @ v

What a mask excludes counts nothing. A row that excludes everything gives zeros, as in PyTorch: its
softmax is no number, in whose place zeros stand, as exporters write that to ONNX.
"""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.promotion import as_type
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import constant, dtype, shape

# Not infinity: the difference of two is zero, not NaN.
EXCLUDED = float(np.finfo(np.float32).min)


def _attention(step: TorchStep) -> Result:
    if step.real("dropout_p", 0.0):
        raise ValueError("it drops weights out: call model.eval() before the export")
    q, k, v = (step.tensor(name) for name in ("query", "key", "value"))
    if min(len(shape(x)) for x in (q, k, v)) < 2:
        raise ValueError(f"its query is {shape(q)}")
    if step.flag("enable_gqa", False):
        k, v = (_repeated(step, x, shape(q)[-3]) for x in (k, v))
    scale = step.arguments.get("scale")
    factor = 1 / math.sqrt(shape(q)[-1]) if scale is None else step.real("scale")
    order = list(range(len(shape(k))))
    order[-2:] = order[:-3:-1]
    turned = step.emit("turned", relax.op.permute_dims(k, order))
    scores = step.emit("scores", relax.op.matmul(q, turned))
    scores = step.emit("scaled", relax.op.multiply(scores, relax.const(factor, dtype(q))))
    return relax.op.matmul(_weights(step, scores), v)


def _repeated(step: TorchStep, x: relax.Expr, heads: int) -> relax.Expr:
    """Give every group of query heads a copy of the head that it shares."""
    *batch, shared, rows, columns = shape(x)
    if shared == heads:
        return x
    if heads % shared:
        raise ValueError(f"{heads} heads share {shared}")
    apart = step.emit("apart", relax.op.reshape(x, (*batch, shared, 1, rows, columns)))
    whole = relax.op.broadcast_to(apart, (*batch, shared, heads // shared, rows, columns))
    return step.emit(
        "heads", relax.op.reshape(step.emit("shared", whole), (*batch, heads, rows, columns))
    )


def _weights(step: TorchStep, scores: relax.Expr) -> relax.Expr:
    """Return the softmax of what the mask leaves."""
    mask = step.optional_tensor("attn_mask")
    if step.flag("is_causal", False):
        if mask is not None:
            raise ValueError("it has a mask, and is causal")
        mask = relax.const(np.tri(*shape(scores)[-2:], dtype=np.bool_), "bool")
    if mask is None:
        return step.emit("weights", relax.op.nn.softmax(scores, -1))
    array = constant(mask)
    if array is not None:
        kept = array if array.dtype == np.bool_ else array != -np.inf
        if kept.any(-1).all():
            return _weights_of_known(step, scores, array, kept)
    added = _added(step, mask, dtype(scores))
    masked = step.emit("masked", relax.op.add(scores, added))
    weights = step.emit("weights", relax.op.nn.softmax(masked, -1))
    hidden = step.emit("hidden", relax.op.isnan(weights))
    return step.emit("counted", relax.op.where(hidden, relax.const(0.0, dtype(scores)), weights))


def _weights_of_known(
    step: TorchStep, scores: relax.Expr, mask: np.ndarray, kept: np.ndarray
) -> relax.Expr:
    """Return the softmax under a known mask that leaves something in each row."""
    if mask.dtype != np.bool_:
        finite = np.where(kept, mask, 0).astype(dtype(scores))
        scores = step.emit("masked", relax.op.add(scores, relax.const(finite)))
    if not kept.all():
        condition, excluded = relax.const(kept), relax.const(EXCLUDED, dtype(scores))
        scores = step.emit("chosen", relax.op.where(condition, scores, excluded))
    return step.emit("weights", relax.op.nn.softmax(scores, -1))


def _added(step: TorchStep, mask: relax.Expr, kind: str) -> relax.Expr:
    """Return what a mask adds to scores: minus infinity where it excludes."""
    if dtype(mask) != "bool":
        return as_type(step, mask, kind)
    nothing, excluded = relax.const(0.0, kind), relax.const(-np.inf, kind)
    return step.emit("added", relax.op.where(mask, nothing, excluded))


ATTENTION: dict[str, Converter] = {"scaled_dot_product_attention": _attention}
