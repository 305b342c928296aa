"""Scaled dot-product attention, written in matrix products and a softmax.

    softmax(q @ k^T * scale + mask) @ v

What a mask excludes counts nothing; a row that excludes everything gives zeros, as in PyTorch.
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
    kept = mask
    if mask is not None and dtype(mask) != "bool":
        scores = step.emit("masked", relax.op.add(scores, _finite(step, mask, dtype(scores))))
        kept = step.emit("kept", relax.op.greater(mask, relax.const(-np.inf, dtype(mask))))
    known = None if kept is None else constant(kept)
    if kept is None or (known is not None and known.all()):
        return step.emit("weights", relax.op.nn.softmax(scores, -1))
    chosen = relax.op.where(kept, scores, relax.const(EXCLUDED, dtype(scores)))
    weights = step.emit("weights", relax.op.nn.softmax(step.emit("chosen", chosen), -1))
    if known is not None and known.any(-1).all():
        return weights
    nothing = relax.const(0.0, dtype(scores))
    return step.emit("counted", relax.op.where(kept, weights, nothing))


def _finite(step: TorchStep, mask: relax.Expr, kind: str) -> relax.Expr:
    """Return what a mask of numbers adds: nothing where it excludes."""
    array = constant(mask)
    if array is not None:
        return relax.const(np.where(array == -np.inf, 0, array).astype(kind))
    return step.emit(
        "added", relax.op.maximum(as_type(step, mask, kind), relax.const(EXCLUDED, kind))
    )


ATTENTION: dict[str, Converter] = {"scaled_dot_product_attention": _attention}
