"""Write a batch norm that follows no convolution as a depthwise 1x1 convolution.

    Before:  n = batch_norm(x, gamma, beta, mean, variance);  y = n[0]
    After:   c = conv2d(x, a, groups=channels);  y = add(c, b)

Of other ranks than 4 it becomes a multiplication and an addition. Where a quantized model has one
after a DQ, its weights get a Q/DQ pair: one weight a channel is 127 steps of its own scale.

Place:  after FoldAffine, which takes every batch norm that it can.
Exact:  a and b are float64, rounded to float32 once; in a pair, a is within 2**-23 of itself.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.compiler.passes.normalize.fold_affine import batch_norm_scaling
from relay_int8.compiler.passes.normalize.weight_pair import weight_pair
from relay_int8.graph.dataflow import constant, dtype, operator, shape
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main
from relay_int8.numerics.qparams import weight_scales


@tvm.transform.module_pass(opt_level=0, name="LowerBatchNorm")
class LowerBatchNorm:
    """Write a batch norm that follows no convolution as a depthwise 1x1 convolution."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` without batch norms; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _lower)


def _lower(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
    if not isinstance(value, relax.TupleGetItem) or value.index != 0:
        return None
    norm = scope.value(value.tuple_value)
    if operator(norm) != "nn.batch_norm":
        return None
    scaling = batch_norm_scaling(scope.name, norm)
    if isinstance(scaling, Declined):
        return scaling
    x = norm.args[0]
    kind, rank, channels = dtype(x), len(shape(x)), shape(x)[1]
    scale, shift = (np.broadcast_to(part, (channels,)).astype(kind) for part in scaling)
    bias = relax.const(shift.reshape((1, -1, *(1,) * (rank - 2))), kind)
    if rank == 4:
        w = _weights(scope, x, scale.reshape(-1, 1, 1, 1), shift)
        scaled = scope.emit("conv2d", relax.op.nn.conv2d(x, w, groups=channels))
    else:
        k = relax.const(scale.reshape((1, -1, *(1,) * (rank - 2))), kind)
        scaled = scope.emit("multiply", relax.op.multiply(x, k))
    return relax.op.add(scaled, bias)


def _weights(scope: Scope, x: relax.Expr, w: np.ndarray, shift: np.ndarray) -> relax.Expr:
    """Return (channels, 1, 1, 1) weights, with a Q/DQ pair where ``x`` is dequantized."""
    source = scope.value(x)
    s_x = constant(source.args[1]) if operator(source) == "dequantize" else None
    if s_x is None or s_x.size != 1 or w.dtype != np.float32:
        return relax.const(w, str(w.dtype))
    scales = weight_scales(w, shift, np.float32(s_x.reshape(())))
    return scope.emit("weight", weight_pair(scope, w, scales, 0))
