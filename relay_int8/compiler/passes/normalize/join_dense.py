"""Multiply by one matrix where a file multiplies by two in a row, if that is less work.

    Before:  p = matmul(x, a);  r = reshape(p, rows);  y = matmul(r, b)
    After:   r = reshape(x, rows);  y = matmul(r, a b)

The reshape, which may be missing, keeps the last axis. Of networks of sound these are a Fourier
transform of which real parts alone are read, and the filters of the mel scale. A matrix that is
narrower in the middle, as a factorized layer has it, stays: one product is more work there.

Place:  after SeparateRows, before FoldAffine.
Exact:  a b is computed in float64 and rounded to float32 once; the tensor between is not rounded.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import constant, dtype, operator, shape
from relay_int8.graph.rewriting import Scope, rewrite_main


@tvm.transform.module_pass(opt_level=0, name="JoinDense")
class JoinDense:
    """Multiply by one matrix where two in a row are more work."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` without such pairs; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _joined)


def _joined(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    second = _weights(value)
    if second is None or not scope.used_once(value.args[0]):
        return None
    rows, inner = shape(value.args[0]), scope.value(value.args[0])
    if operator(inner) == "reshape":
        if not scope.used_once(inner.args[0]) or shape(inner.args[0])[-1:] != rows[-1:]:
            return None
        inner = scope.value(inner.args[0])
    first = _weights(inner)
    if first is None or not _is_less_work(first.shape, second.shape):
        return None
    x, outer = inner.args[0], (*rows[:-1], len(first))
    if shape(x) != outer:
        x = scope.emit("rows", relax.op.reshape(x, outer))
    whole = first.astype(np.float64) @ second.astype(np.float64)
    return relax.op.matmul(x, relax.const(whole.astype(np.float32)))


def _weights(value: relax.Expr) -> np.ndarray | None:
    """Return the matrix that a dense layer of floats multiplies by."""
    if operator(value) != "matmul" or dtype(value.args[0]) != "float32":
        return None
    w = constant(value.args[1])
    return w if w is not None and w.ndim == 2 and w.dtype == np.float32 else None


def _is_less_work(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Whether a row has fewer products by one matrix than by two."""
    (k, m), n = first, second[1]
    return k * n <= k * m + m * n
