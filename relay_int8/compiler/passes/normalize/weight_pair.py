"""The Q/DQ pair around int8 weights, as InsertQdq writes it and Realize reads it."""

from __future__ import annotations

import numpy as np
from tvm import relax

from relay_int8.graph.rewriting import Scope


def weight_pair(scope: Scope, reals: np.ndarray, scales: np.ndarray, axis: int) -> relax.Expr:
    """Return weights that are quantized, and dequantized, with a scale for each output channel.

    Parameters
    ----------
    reals
        float32, multiples of the scales.
    scales
        float32, one for each index of ``axis``.
    """
    s, z = relax.const(scales, "float32"), relax.const(np.zeros(len(scales), np.int8))
    weights = relax.const(np.ascontiguousarray(reals, np.float32))
    q = scope.emit("q", relax.op.quantize(weights, s, z, axis, "int8"))
    return relax.op.dequantize(q, s, z, axis)
