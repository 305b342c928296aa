"""PyTorch operators that write elements along an axis, at indices that a tensor gives."""

from __future__ import annotations

import math

from tvm import relax

from relay_int8.frontend.scatter import scatter_elements
from relay_int8.frontend.torch.indexing import indices_from_front
from relay_int8.frontend.torch.promotion import as_type
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import dtype, shape

REDUCTIONS = {"add": "add", "amax": "max", "amin": "min", "multiply": "mul", "prod": "mul"} | {
    "sum": "add"
}
"""Torch's name -> TVM's."""


def _scatter(step: TorchStep) -> Result:
    """Write one element, or one number, for each index."""
    reduction = "update"
    if step.arguments.get("reduce") is not None:
        name = step.text("reduce", "")
        if name not in REDUCTIONS or not step.flag("include_self", True):
            raise NotImplementedError(f"it combines by {name}, or without what is there")
        reduction = REDUCTIONS[name]
    return _scattered(step, reduction)


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
