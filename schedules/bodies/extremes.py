"""Maxima and minima of a reduction: of floats they begin with an infinity.

TVM's own begin with the last finite number, which is then what infinities alone give, as rows of an
attention's mask.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import te, tirx


def _begin(dtype: str, infinity: float) -> tirx.Expr:
    if dtype.startswith("float"):
        return tirx.const(infinity, dtype)
    return tirx.min_value(dtype) if infinity < 0 else tirx.max_value(dtype)


maximum: Any = te.comm_reducer(
    lambda best, value: tirx.max(best, value), lambda dtype: _begin(dtype, -math.inf), "maximum"
)
minimum: Any = te.comm_reducer(
    lambda best, value: tirx.min(best, value), lambda dtype: _begin(dtype, math.inf), "minimum"
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
