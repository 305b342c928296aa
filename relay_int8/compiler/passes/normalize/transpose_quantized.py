"""Transpose quantized weights instead of the reals they stand for.

    Before:  w = dequantize(constant, s, z, axis=0);  t = permute_dims(w, [1, 0]);  matmul(x, t)
    After:   t = dequantize(transposed constant, s, z, axis=1);  matmul(x, t)

Place:  after FoldConstants; a Gemm with transB of an imported QDQ model is why it exists.
Exact:  bit-identical.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import constant, dtype, operator
from relay_int8.graph.rewriting import Scope, rewrite_main


@tvm.transform.module_pass(opt_level=0, name="TransposeQuantized")
class TransposeQuantized:
    """Transpose quantized weights instead of the reals they stand for."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with such transposes done; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _transpose)


def _transpose(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    if operator(value) != "permute_dims":
        return None
    inner = scope.value(value.args[0])
    q = constant(inner.args[0]) if operator(inner) == "dequantize" else None
    if q is None:
        return None
    axes = value.attrs.axes
    order = list(range(q.ndim))[::-1] if axes is None else [int(axis) for axis in axes]
    moved = relax.const(np.ascontiguousarray(q.transpose(order)), dtype(inner.args[0]))
    axis = order.index(int(inner.attrs.axis) % q.ndim)
    return relax.op.dequantize(moved, *inner.args[1:], axis=axis, out_dtype=dtype(inner))
