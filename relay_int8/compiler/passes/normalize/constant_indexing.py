"""What operators that read or write places of constants make of them, in NumPy.

Exporters write banks of filters, masks and tables of positions so: zeros, with numbers scattered
over them, or rows and parts that are gathered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.graph.dataflow import shape, slice_steps
from relay_int8.graph.declined import Declined

Result = np.ndarray | Declined
COMBINED: dict[str, np.ufunc] = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
}


def _slice(value: relax.Call, operands: list[np.ndarray]) -> np.ndarray:
    """Return part of a constant, of the extents that the type of the result says."""
    y = operands[0]
    begins, steps = slice_steps(value)
    for axis, count in enumerate(shape(value)):
        first = min(begins[axis], y.shape[axis] - 1) if steps[axis] < 0 else begins[axis]
        y = y.take(first + steps[axis] * np.arange(count), axis)
    return y


def _take(value: relax.Call, operands: list[np.ndarray]) -> Result:
    x, indices = operands
    axis = None if value.attrs.axis is None else int(value.attrs.axis)
    size = x.size if axis is None else x.shape[axis]
    inside = ((indices >= 0) & (indices < size)).all()
    return np.take(x, indices, axis=axis) if inside else Declined(f"an index is not below {size}")


def _cumulated(value: relax.Call, operands: list[np.ndarray]) -> np.ndarray:
    """Return running sums, such as the places of the pixels that a mask leaves."""
    (x,), axis = operands, value.attrs.axis
    x = x.astype("float64") if x.dtype.kind == "f" else x
    sums = np.cumsum(x, None if axis is None else int(axis))
    return sums - x.reshape(sums.shape) if value.attrs.exclusive else sums


def _gather_nd(value: relax.Call, operands: list[np.ndarray]) -> Result:
    x, indices = operands
    if int(value.attrs.batch_dims):
        return Declined(f"it gathers along {value.attrs.batch_dims} axes of batches, not 0")
    sizes = np.array(x.shape[: indices.shape[-1]])
    if not ((indices >= -sizes) & (indices < sizes)).all():
        return Declined(f"an index is not inside {x.shape}")
    return np.asarray(x[tuple(np.moveaxis(indices, -1, 0))])


def _gather_elements(value: relax.Call, operands: list[np.ndarray]) -> Result:
    x, indices = operands
    axis = int(value.attrs.axis) % x.ndim
    size = x.shape[axis]
    if not ((indices >= -size) & (indices < size)).all():
        return Declined(f"an index is not below {size}")
    # Other axes may be shorter than those of x; NumPy would repeat an extent of one.
    read = tuple(slice(size if i == axis else n) for i, n in enumerate(indices.shape))
    return np.take_along_axis(x[read], indices, axis)


def _tile(value: relax.Call, operands: list[np.ndarray]) -> np.ndarray:
    return np.tile(operands[0], [int(count) for count in value.attrs.repeats])


def _scatter_nd(value: relax.Call, operands: list[np.ndarray]) -> Result:
    x, indices, updates = operands
    sizes = np.array(x.shape[: indices.shape[-1]])
    if not ((indices >= -sizes) & (indices < sizes)).all():
        return Declined(f"an index is not inside {x.shape}")
    return _scattered(value, x, tuple(np.moveaxis(indices, -1, 0)), updates)


def _scatter_elements(value: relax.Call, operands: list[np.ndarray]) -> Result:
    x, indices, updates = operands
    axis = int(value.attrs.axis) % x.ndim
    size = x.shape[axis]
    if not ((indices >= -size) & (indices < size)).all():
        return Declined(f"an index is not below {size}")
    places: list[Any] = [*np.indices(indices.shape, sparse=True)]
    places[axis] = indices
    return _scattered(value, x, tuple(places), updates)


def _scattered(
    value: relax.Call, x: np.ndarray, places: tuple[Any, ...], updates: np.ndarray
) -> Result:
    """Return ``x`` with updates written over its places or combined with what is there."""
    reduction, y = str(value.attrs.reduction), x.astype(np.result_type(x, updates))
    if reduction == "update":
        y[places] = updates
    elif reduction in COMBINED:
        COMBINED[reduction].at(y, places, updates)
    else:
        return Declined(f"it scatters by {reduction}")
    return y


INDEXING: dict[str, Callable[[relax.Call, list[np.ndarray]], Result]] = {
    "cumsum": _cumulated,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "strided_slice": _slice,
    "take": _take,
    "tile": _tile,
}
"""Relax operator (without ``relax.``) -> the function of a call and its operands."""
