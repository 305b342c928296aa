"""PyTorch operators that write elements along an axis, at indices that a tensor gives."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from tvm import relax

from relay_int8.frontend.scatter import scatter_elements
from relay_int8.frontend.torch.indexing import indices_from_front
from relay_int8.frontend.torch.promotion import as_type
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import dtype, shape

SUM, PRODUCT = ("add", 0.0), ("mul", 1.0)
REDUCTIONS = {
    "add": SUM,
    "amax": ("max", -math.inf),
    "amin": ("min", math.inf),
    "mean": SUM,
    "multiply": PRODUCT,
    "prod": PRODUCT,
    "sum": SUM,
}
"""Torch's name -> Relax's, and what combines with any number to that number."""


def _scatter(step: TorchStep) -> Result:
    """Write one element, or one number, for each index."""
    if step.arguments.get("reduce") is None:
        return _scattered(step, "update")
    name, is_counted = step.text("reduce", ""), step.flag("include_self", True)
    if name not in REDUCTIONS:
        raise NotImplementedError(f"it combines by {name}")
    reduction, neutral = REDUCTIONS[name]
    if not is_counted:
        step = _without_self(step, neutral)
    total = _scattered(step, reduction)
    if name != "mean":
        return total
    if not dtype(step.x).startswith("float"):
        raise NotImplementedError(f"means of {dtype(step.x)}")
    first = np.full(shape(step.x), float(is_counted), dtype(step.x))
    ones = np.ones(shape(step.tensor("src")), dtype(step.x))
    given = {"self": relax.const(first), "src": relax.const(ones)}
    counted = replace(step, arguments={**step.arguments, **given})
    count = step.emit("count", _scattered(counted, "add"))
    count = step.emit("least", relax.op.maximum(count, step.number(1.0)))
    return relax.op.divide(step.emit("total", total), count)


def _without_self(step: TorchStep, neutral: float) -> TorchStep:
    """Let what is written to begin at a number that changes nothing, where something is written."""
    kind = dtype(step.x)
    if math.isinf(neutral) and not kind.startswith("float"):
        limits = np.iinfo(kind)
        neutral = limits.max if neutral > 0 else limits.min
    given = {key: value for key, value in step.arguments.items() if key != "src"}
    begun = replace(step, arguments={**given, "value": neutral})
    return replace(
        step, arguments={**step.arguments, "self": step.emit("begun", _scattered(begun, "update"))}
    )


def _scatter_add(step: TorchStep) -> Result:
    return _scattered(step, "add")


def _scattered(step: TorchStep, reduction: str) -> Result:
    axis, indices = step.axis("dim"), step.tensor("index")
    dims = shape(indices)
    if len(dims) != step.rank:
        raise ValueError(f"its index is {dims}, for an operand {shape(step.x)}")
    places = indices_from_front(step, indices, shape(step.x)[axis])
    if "value" in step.arguments:
        number = as_type(step, step.operand("value"), dtype(step.x))
        updates = step.emit("updates", relax.op.broadcast_to(number, dims))
    else:
        updates = as_type(step, step.tensor("src"), dtype(step.x))
        longer = [i for i, (n, m) in enumerate(zip(shape(updates), dims, strict=True)) if n > m]
        if longer:
            kept = relax.op.strided_slice(
                updates, longer, [0] * len(longer), [dims[i] for i in longer]
            )
            updates = step.emit("updates", kept)
    return scatter_elements(step.emit, step.x, places, updates, axis, reduction)


def _index_copy(step: TorchStep) -> Result:
    return _whole_slices(step, step.tensor("source"), "update")


def _index_add(step: TorchStep) -> Result:
    source = step.tensor("source")
    alpha = step.arguments.get("alpha", 1)
    if alpha != 1:
        source = step.emit("scaled", relax.op.multiply(source, step.number(alpha)))
    return _whole_slices(step, source, "add")


def _index_fill(step: TorchStep) -> Result:
    axis, dims = step.axis("dim"), list(shape(step.x))
    dims[axis] = math.prod(shape(step.tensor("index")))
    number = as_type(step, step.operand("value"), dtype(step.x))
    return _whole_slices(step, step.emit("values", relax.op.broadcast_to(number, dims)), "update")


def _whole_slices(step: TorchStep, source: relax.Expr, reduction: str) -> Result:
    """Write slices across an axis at the indices of a vector."""
    axis, indices = step.axis("dim"), step.tensor("index")
    places = indices_from_front(step, indices, shape(step.x)[axis])
    along = [1] * step.rank
    along[axis] = math.prod(shape(indices))
    row = step.emit("row", relax.op.reshape(places, along))
    whole = step.emit("whole", relax.op.broadcast_to(row, shape(source)))
    return scatter_elements(step.emit, step.x, whole, source, axis, reduction)


SCATTERING: dict[str, Converter] = {
    "index_add": _index_add,
    "index_copy": _index_copy,
    "index_fill": _index_fill,
    "scatter": _scatter,
    "scatter_add": _scatter_add,
    "scatter_reduce": _scatter,
}
