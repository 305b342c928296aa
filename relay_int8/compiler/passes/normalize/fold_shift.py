"""Fold a constant that is added to each channel into the bias of the convolution that reads it.

    Before:  s = add(x, c);  y = conv2d(s, w)
    After:   z = conv2d(x, w);  y = add(z, sum(w * c))

Only where the convolution pads nothing: a pixel beyond the border is zero, not c. Products with
weights are the same. What is added to the result of such a layer is its own bias, and stays.

Place:  after CanonicalizeTokens, before FoldAffine, which joins this bias and the layer's own.
Exact:  within float rounding; the sum is float64, rounded once.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.channel_affine import channel_arithmetic
from relay_int8.graph.contractions import LAYERS
from relay_int8.graph.dataflow import IMAGE, constant, dtype, is_quantized, operator, shape
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main


@tvm.transform.module_pass(opt_level=0, name="FoldShift")
class FoldShift:
    """Fold a constant that is added to each channel into the bias of what reads it."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with such constants folded; itself if it is quantized already."""
        return mod if is_quantized(mod) else rewrite_main(mod.clone(), _folded)


def _folded(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
    op = operator(value)
    if op not in ("nn.conv2d", "matmul") or dtype(value) != "float32":
        return None
    shifted, weight = value.args[0], constant(value.args[1])
    step = channel_arithmetic(scope.value(shifted))
    if step is None or weight is None:
        return None
    x, (scale, shift) = step
    if operator(scope.value(x)) in LAYERS or shape(x) != shape(shifted):
        return None
    if np.any(scale != 1) or not np.isfinite(shift).all():
        return None
    if not scope.used_once(shifted):
        return Declined(f"{shifted.name} is not folded into it, which something else reads too")
    bias = _bias(value, weight, np.asarray(shift, np.float64))
    if isinstance(bias, Declined) or bias is None:
        return bias
    layer = scope.emit("shifted", type(value)(value.op, [x, value.args[1]], value.attrs))
    return relax.op.add(layer, relax.const(bias))


def _bias(value: relax.Call, weight: np.ndarray, shift: np.ndarray) -> np.ndarray | Declined | None:
    """Return what a layer makes of ``shift``, of a shape that is added to its result."""
    if operator(value) == "matmul":
        if weight.ndim != 2 or len(shape(value)) == IMAGE:  # whose channels are not the last axis
            return None
        total = np.broadcast_to(shift, (weight.shape[0],)) @ weight.astype(np.float64)
        return np.asarray(total, np.float32)
    if value.attrs.data_layout != "NCHW" or value.attrs.kernel_layout != "OIHW":
        return None
    if any(int(width) for width in value.attrs.padding):
        return Declined("a constant in front is not folded into it: it pads with zeros")
    groups, width = int(value.attrs.groups), weight.shape[1]
    channels = np.broadcast_to(shift, (groups * width,)).reshape(groups, 1, width)
    taps = weight.astype(np.float64).sum(axis=(2, 3)).reshape(groups, -1, width)
    total = (taps * channels).sum(axis=2)
    return np.asarray(total.reshape(1, -1, 1, 1), np.float32)
