"""Transpose quantized weights instead of the reals they stand for.

    Before:  w = dequantize(constant, s, z, axis=0);  t = permute_dims(w, [1, 0]);  matmul(x, t)
    After:   t = dequantize(transposed constant, s, z, axis=1);  matmul(x, t)

    Before:  w = dequantize(quantize(float constant, s, z, axis=0), s, z, axis=0), transposed
    After:   the same of the transposed float constant

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
    if operator(inner) != "dequantize":
        return None
    source = scope.value(inner.args[0])
    pair = operator(source) == "quantize"
    array = constant(source.args[0] if pair else inner.args[0])
    if array is None:
        return None
    axes = value.attrs.axes
    order = list(range(array.ndim))[::-1] if axes is None else [int(axis) for axis in axes]
    moved: relax.Expr = relax.const(np.ascontiguousarray(array.transpose(order)))
    axis = order.index(int(inner.attrs.axis) % array.ndim)
    if pair:
        moved = scope.emit(
            "q", relax.op.quantize(moved, *source.args[1:], axis, str(source.attrs.out_dtype))
        )
    return relax.op.dequantize(moved, *inner.args[1:], axis=axis, out_dtype=dtype(inner))
