"""Write reductions over height, width or both as pooling.

    Before:  y = mean(x, axis=[2, 3], keepdims=False)
    After:   p = avg_pool2d(x, pool_size=(H, W));  y = reshape(p, (N, C))

The same for max and for adaptive average pooling whose windows are all alike. A sum of a float
network is an average times the number of pixels.

    Before:  y = adaptive_avg_pool2d(x, (3, 3)), of 7 x 7 pixels
    After:   r = reshape(x, (N, C, 49));  m = matmul(r, shares);  y = reshape(m, (N, C, 3, 3))

Windows that differ, as in heads that pool to several sizes (PSPNet, UPerNet), are a product with
constant weights: of a window each pixel has the same share, so that integer weights are exact.

    Before:  y = avg_pool2d(x, pool_size=(2560, 2560), ceil_mode=True), of 2 x 2 pixels
    After:   y = avg_pool2d(x, pool_size=(2, 2), ceil_mode=True)

A window that hangs over on both sides is cut (HuggingFace's EfficientNet ends in one).

Place:  after FoldConstants, before CanonicalizeReshape.
Exact:  the same real number; the float sum may be taken in another order.
"""

from __future__ import annotations

import math

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import dtype, is_quantized, operator, shape
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main
from relay_int8.numerics.window_means import mean_weights

RANK = 4
POOLS = {"mean": relax.op.nn.avg_pool2d, "max": relax.op.nn.max_pool2d}
WINDOWS = {f"nn.{pool.__name__}": pool for pool in POOLS.values()}


@tvm.transform.module_pass(opt_level=0, name="CanonicalizePool")
class CanonicalizePool:
    """Write reductions over height, width or both as pooling."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with global pooling as pooling; ``mod`` itself is left alone."""
        sums = not is_quantized(mod)  # what a quantized file sums has no range of its mean

        def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
            is_sum = sums and operator(value) == "sum"
            return _sum(scope, value) if is_sum else _as_pool(scope, value)

        return rewrite_main(mod.clone(), _rewrite)


def _sum(scope: Scope, value: relax.Call) -> relax.Expr | None:
    x = value.args[0]
    if dtype(value) != "float32" or len(shape(x)) != RANK:
        return None
    axes = _axes(value)
    counts = [shape(x)[axis] for axis in axes]
    if not axes or not axes <= {2, 3} or not all(isinstance(count, int) for count in counts):
        return None
    mean = scope.typed(relax.op.mean(x, sorted(axes), value.attrs.keepdims))
    pooled = _as_pool(scope, mean)
    assert isinstance(pooled, relax.Expr)
    count = relax.const(math.prod(counts), "float32")
    return relax.op.multiply(scope.emit("mean", pooled), count)


def _as_pool(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
    op = operator(value)
    if op in WINDOWS:
        return _cut(value)
    if op == "nn.adaptive_avg_pool2d":
        return _adaptive(scope, value)
    if op not in POOLS or len(shape(value.args[0])) != RANK:
        return None
    axes = _axes(value)
    if not axes:
        return None
    if not axes <= {2, 3}:
        return Declined(f"it reduces axes {sorted(axes)}, not height and width alone")
    x = value.args[0]
    window = [extent if axis in axes else 1 for axis, extent in enumerate(shape(x))]
    pooled = POOLS[op](x, pool_size=window[2:])
    if value.attrs.keepdims:
        return pooled
    return relax.op.reshape(scope.emit(f"{op}_pool2d", pooled), shape(value))


def _cut(value: relax.Call) -> relax.Expr | None:
    """Cut a window to the image and its border, where it is larger; there is one window then."""
    attrs, (x,) = value.attrs, value.args
    top, left, bottom, right = map(int, attrs.padding)
    if attrs.layout != "NCHW" or any(int(step) != 1 for step in attrs.dilation):
        return None
    height, width = shape(x)[2:]
    if not isinstance(height, int) or not isinstance(width, int):
        return None
    extents = (height + top + bottom, width + left + right)
    sizes = tuple(map(int, attrs.pool_size))
    window = [min(pair) for pair in zip(sizes, extents, strict=True)]
    if window == list(sizes):
        return None
    return WINDOWS[operator(value)](
        x,
        window,
        strides=attrs.strides,
        padding=attrs.padding,
        ceil_mode=attrs.ceil_mode,
        count_include_pad=attrs.count_include_pad,
    )


def _axes(value: relax.Call) -> set[int]:
    """Return the axes that a reduction takes."""
    axes = value.attrs.axis
    return set(range(RANK)) if axes is None else {int(axis) % RANK for axis in axes}


def _adaptive(scope: Scope, value: relax.Call) -> relax.Expr | Declined | None:
    (rows, cols), (h, w) = shape(value)[2:], shape(value.args[0])[2:]
    if value.attrs.layout != "NCHW":
        return Declined(f"its layout is {value.attrs.layout}, not NCHW")
    if h % rows or w % cols:
        return _shares(scope, value)
    window = (h // rows, w // cols)
    strides = window if (rows, cols) != (1, 1) else (1, 1)
    return relax.op.nn.avg_pool2d(value.args[0], pool_size=window, strides=strides)


def _shares(scope: Scope, value: relax.Call) -> relax.Expr:
    """Return means of windows of several sizes, as a product of the pixels."""
    (n, c, h, w), (rows, cols) = shape(value.args[0]), shape(value)[2:]
    weights = np.kron(mean_weights(h, rows), mean_weights(w, cols)).T
    pixels = scope.emit("pixels", relax.op.reshape(value.args[0], (n, c, h * w)))
    means = relax.op.matmul(pixels, relax.const(np.ascontiguousarray(weights, np.float32)))
    return relax.op.reshape(scope.emit("means", means), (n, c, rows, cols))
