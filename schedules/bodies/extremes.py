"""Maxima and minima of a reduction: of floats they begin with an infinity.

TVM's own begin with the last finite number, which is then what infinities alone give, as rows of an
attention's mask.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import te, tirx


def least(dtype: str) -> tirx.Expr:
    """Return what wins no maximum: of floats minus infinity."""
    is_float = dtype.startswith("float")
    return tirx.const(-math.inf, dtype) if is_float else tirx.min_value(dtype)


def most(dtype: str) -> tirx.Expr:
    """Return what wins no minimum: of floats infinity."""
    is_float = dtype.startswith("float")
    return tirx.const(math.inf, dtype) if is_float else tirx.max_value(dtype)


maximum: Any = te.comm_reducer(
    lambda best, value: tirx.max(best, value), lambda dtype: least(dtype), "maximum"
)
minimum: Any = te.comm_reducer(
    lambda best, value: tirx.min(best, value), lambda dtype: most(dtype), "minimum"
)


def over_axes(reduce: Any, x: te.Tensor, axes: Sequence[int], keepdims: bool) -> te.Tensor:
    """Return a tensor reduced over some of its axes, which are counted from the first."""
    steps = {axis: te.reduce_axis((0, x.shape[axis]), f"k{axis}") for axis in axes}
    kept = [axis for axis in range(len(x.shape)) if keepdims or axis not in steps]
    dims = [1 if axis in steps else x.shape[axis] for axis in kept]

    def _at(*indices: tirx.Var) -> Any:
        places = {**dict(zip(kept, indices, strict=True)), **steps}
        return reduce(x[tuple(places[axis] for axis in range(len(x.shape)))], [*steps.values()])

    return te.compute(dims, _at, name="reduced")
