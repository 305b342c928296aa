"""MXNet operators that read by indices, which are numbers of any type."""

from __future__ import annotations

import numpy as np
from tvm import relax, tirx

from relay_int8.frontend.mxnet.layers import axis_of
from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.graph.dataflow import dtype, shape


def _integers(step: MxnetStep, x: relax.Expr, size: int, mode: str) -> relax.Expr:
    """Return indices as int32 within an extent: what is outside is moved or wrapped."""
    if dtype(x) not in ("int32", "int64"):
        x = step.emit("integers", relax.op.astype(x, "int32"))
    kind = dtype(x)
    if mode == "wrap":
        return step.emit("wrapped", relax.op.floor_mod(x, relax.const(np.array(size, kind), kind)))
    if mode not in ("clip", "raise"):
        raise ValueError(f"its mode is {mode!r}, not clip, wrap or raise")
    low, high = (relax.const(np.array(bound, kind), kind) for bound in (0, size - 1))
    least = step.emit("least", relax.op.maximum(x, low))
    return step.emit("clipped", relax.op.minimum(least, high))


def _embedding(step: MxnetStep) -> relax.Expr:
    """Take rows of a table."""
    indices, table = step.operands("data", "weight")
    if len(shape(table)) != 2:
        raise ValueError(f"its weight is {list(shape(table))}, no table")
    return relax.op.take(table, _integers(step, indices, shape(table)[0], "clip"), 0)


def _take(step: MxnetStep) -> relax.Expr:
    x, indices = step.operands("a", "indices")
    axis = axis_of(step.attributes.integer("axis", 0), len(shape(x)))
    mode = step.attributes.text("mode", "clip")
    return relax.op.take(x, _integers(step, indices, shape(x)[axis], mode), axis)


def _gather_nd(step: MxnetStep) -> relax.Expr:
    """Take elements; the coordinates of an element lie along the first axis of the indices."""
    x, indices = step.operands("data", "indices")
    rank = len(shape(indices))
    turned = step.emit("turned", relax.op.permute_dims(indices, [*range(1, rank), 0]))
    return relax.op.gather_nd(x, step.emit("integers", relax.op.astype(turned, "int64")))


_ONE_HOT = (("on_value", 1.0), ("off_value", 0.0))


def _one_hot(step: MxnetStep) -> relax.Expr:
    attrs = step.attributes
    depth = attrs.integer("depth", least=1)
    if attrs.text("dtype", "float32") != "float32":
        raise NotImplementedError(f"one_hot of type {attrs.text('dtype')}")
    indices = step.emit("integers", relax.op.astype(step.x, "int32"))
    reals = (tirx.const(attrs.real(name, default), "float32") for name, default in _ONE_HOT)
    return relax.op.one_hot(indices, *map(relax.prim_value, reals), depth, -1)


def _pick(step: MxnetStep) -> relax.Expr:
    """Take one element along an axis for each place of the others."""
    x, indices = step.operands("data", "index")
    rank = len(shape(x))
    axis = axis_of(step.attributes.integer("axis", -1), rank)
    chosen = _integers(step, indices, shape(x)[axis], step.attributes.text("mode", "clip"))
    if len(shape(chosen)) < rank:
        chosen = step.emit("column", relax.op.expand_dims(chosen, axis))
    y = relax.op.gather_elements(x, step.emit("places", relax.op.astype(chosen, "int64")), axis)
    if step.attributes.flag("keepdims", False):
        return y
    return relax.op.squeeze(step.emit("picked", y), [axis])


def _extreme(step: MxnetStep, *, largest: bool) -> relax.Expr:
    """Return the index of an extreme as a float."""
    attrs, x = step.attributes, step.x
    if "axis" not in attrs:
        raise NotImplementedError("the index within the whole tensor")
    axis = axis_of(attrs.integer("axis"), len(shape(x)))
    choose = relax.op.argmax if largest else relax.op.argmin
    place = step.emit("place", choose(x, axis, keepdims=attrs.flag("keepdims", False)))
    return relax.op.astype(place, "float32")


def _top(step: MxnetStep) -> relax.Expr | list[relax.Expr]:
    """Return the largest elements along an axis, or where they are, as floats."""
    attrs, rank = step.attributes, len(shape(step.x))
    kind, axis = attrs.text("ret_typ", "indices"), axis_of(attrs.integer("axis", -1), rank)
    count = attrs.integer("k", 1, least=0) or shape(step.x)[axis]
    if kind not in ("indices", "value", "both"):
        raise NotImplementedError(f"topk that returns {kind}")
    largest = not attrs.flag("is_ascend", False)
    pair = step.emit("top", relax.op.topk(step.x, count, axis, "both", largest, "int32"))
    places = step.emit("places", relax.TupleGetItem(pair, 1))
    indices = step.emit("indices", relax.op.astype(places, "float32"))
    values = relax.TupleGetItem(pair, 0)
    return {"indices": indices, "value": values, "both": [values, indices]}[kind]


def _sorted(*, values: bool) -> Converter:
    """Return elements in order along an axis, or where they stood, as floats."""

    def _convert(step: MxnetStep) -> relax.Expr:
        attrs = step.attributes
        axis = axis_of(attrs.integer("axis", -1), len(shape(step.x)))
        is_falling = not attrs.flag("is_ascend", True)
        count = shape(step.x)[axis]
        pair = step.emit("sorted", relax.op.topk(step.x, count, axis, "both", is_falling, "int32"))
        if values:
            return relax.TupleGetItem(pair, 0)
        return relax.op.astype(step.emit("places", relax.TupleGetItem(pair, 1)), "float32")

    return _convert


INDICES: dict[str, Converter] = {
    "Embedding": _embedding,
    "argmax": lambda step: _extreme(step, largest=True),
    "argmin": lambda step: _extreme(step, largest=False),
    "argsort": _sorted(values=False),
    "gather_nd": _gather_nd,
    "one_hot": _one_hot,
    "pick": _pick,
    "sort": _sorted(values=True),
    "take": _take,
    "topk": _top,
}
