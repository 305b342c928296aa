"""Pads of negative widths, which crop: a shift of tokens pads one side and crops the other.

``pad(x, before=1, after=-1)`` is ``pad(strided_slice(x, 0, n - 1), before=1, after=0)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tvm import relax

from relay_int8.graph.dataflow import shape

AROUND = ("circular", "wrap")
"""Modes that continue at the other end, of whose crops ONNX and PyTorch do not say the same."""

Emit = Callable[[relax.Expr], relax.Expr]


def cropped(
    emit: Emit, x: relax.Expr, widths: Sequence[int], mode: str
) -> tuple[relax.Expr, list[int]]:
    """Return a tensor without what negative widths crop, and the widths with zeros in their place.

    Parameters
    ----------
    emit
        Binds an expression.
    x
        The tensor that is padded.
    widths
        Before and after each axis, axis by axis.
    mode
        Of padding; what continues at the other end may not crop.

    Raises
    ------
    NotImplementedError
        It crops, and continues at the other end.
    ValueError
        Nothing is left of an axis.
    """
    sides = np.asarray(widths, np.int64).reshape(-1, 2)
    crops = np.maximum(-sides, 0)
    if not crops.any():
        return x, sides.reshape(-1).tolist()
    if mode in AROUND:
        raise NotImplementedError(f"it crops (negative widths) with mode {mode}; use Slice")
    axes = [int(axis) for axis in np.flatnonzero(crops.any(axis=1))]
    begins = [int(crops[axis, 0]) for axis in axes]
    ends = [int(shape(x)[axis]) - int(crops[axis, 1]) for axis in axes]
    if any(end <= begin for begin, end in zip(begins, ends, strict=True)):
        raise ValueError(f"its widths {sides.reshape(-1).tolist()} leave nothing of {shape(x)}")
    part = emit(relax.op.strided_slice(x, axes, begins, ends))
    return part, np.maximum(sides, 0).reshape(-1).tolist()
