"""The Q/DQ pair around integer weights, as InsertQdq writes it and Realize reads it."""

from __future__ import annotations

import numpy as np
from tvm import relax

from relay_int8.graph.rewriting import Scope


def weight_pair(
    scope: Scope,
    reals: np.ndarray,
    scales: np.ndarray,
    axis: int,
    zeros: np.ndarray | None = None,
) -> relax.Expr:
    """Return weights that are quantized, and dequantized, with a scale for each output channel.

    Parameters
    ----------
    reals
        float32, multiples of the scales.
    scales
        float32, one for each index of ``axis``.
    zeros
        Zero points, likewise, of the type of the integers; int8 zeros where there are none.
    """
    zeros = np.zeros(len(scales), np.int8) if zeros is None else zeros
    s, z = relax.const(scales, "float32"), relax.const(zeros)
    weights = relax.const(np.ascontiguousarray(reals, np.float32))
    q = scope.emit("q", relax.op.quantize(weights, s, z, axis, str(zeros.dtype)))
    return relax.op.dequantize(q, s, z, axis)
