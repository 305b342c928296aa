"""PyTorch operators that pool windows."""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from relay_int8.frontend.max_indices import Windows, max_indices
from relay_int8.frontend.resampling import resized_by_products
from relay_int8.frontend.scatter import scatter_elements
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import dtype, shape
from relay_int8.numerics.window_means import mean_weights

MOST_REPEATED = 4096
"""Windows of a pooling that makes images larger; a pyramid has 36, a damaged file any number."""


def _pooled(step: TorchStep, kind: str, **options: bool) -> Result:
    """Pool over windows; the stride is the kernel's where none is given.

    Relax rounds sizes up as torch does: a last window that ``ceil_mode`` lets hang over begins on
    the image, or on its padding before.
    """
    rank = _window_rank(step)
    kernel = step.sizes("kernel_size", rank)
    strides = step.sizes("stride", rank) if step.arguments.get("stride") else kernel
    pad, dilation = step.sizes("padding", rank, 0, least=0), step.sizes("dilation", rank, 1)
    if any(2 * p > k for p, k in zip(pad, kernel, strict=True)):
        raise ValueError(f"its padding {pad} is more than half of its kernel {kernel}")
    ceil = step.flag("ceil_mode", False)
    pool = getattr(relax.op.nn, f"{kind}_pool{rank}d")
    return pool(step.x, kernel, strides, pad * 2, dilation, ceil, **options)


def _named_rank(step: TorchStep) -> int:
    """Return how many axes windows have by the operator's name: ``avg_pool2d`` has two."""
    return int(step.operator.partition("pool")[2][0])


def _window_rank(step: TorchStep) -> int:
    """Return how many axes windows have, of an operand with batch and channels."""
    rank = _named_rank(step)
    if step.rank != rank + 2:
        raise NotImplementedError(
            f"{step.operator} of {shape(step.x)}, which has no {rank + 1} or {rank + 2} axes"
        )
    return rank


def _max_pool(step: TorchStep) -> Result:
    return _pooled(step, "max")


def _max_pool_with_indices(step: TorchStep) -> Result:
    """Return the maxima, and where they lie in the image of their channel."""
    rank = _window_rank(step)
    maxima = step.emit("maxima", _max_pool(step))
    kernel = step.sizes("kernel_size", rank)
    windows = Windows(
        sizes=shape(maxima)[2:],
        kernel=kernel,
        strides=step.sizes("stride", rank) if step.arguments.get("stride") else kernel,
        before=step.sizes("padding", rank, 0, least=0),
        dilation=step.sizes("dilation", rank, 1),
        steps=[math.prod(shape(step.x)[axis + 1 :]) for axis in range(2, step.rank)],
    )
    return [maxima, max_indices(step.emit, step.x, windows)]


def _max_unpool(step: TorchStep) -> Result:
    """Put elements where an image had its maxima; all others are zero."""
    rank, (n, channels, *sizes) = _window_rank(step), shape(step.x)
    indices, target = step.tensor("indices"), step.sizes("output_size", rank)
    if shape(indices) != shape(step.x):
        raise ValueError(f"its indices are {shape(indices)}, for an operand {shape(step.x)}")
    flat = (n, channels, math.prod(sizes))
    zeros = relax.const(np.zeros((n, channels, math.prod(target)), dtype(step.x)))
    y = scatter_elements(
        step.emit,
        zeros,
        step.emit("indices", relax.op.reshape(indices, flat)),
        step.emit("elements", relax.op.reshape(step.x, flat)),
        2,
        "update",
    )
    return relax.op.reshape(step.emit("image", y), (n, channels, *target))


def _avg_pool(step: TorchStep) -> Result:
    divisor = step.arguments.get("divisor_override")
    if divisor is None:
        counted = step.flag("count_include_pad", True)
        return _pooled(step, "avg", count_include_pad=counted)
    if step.flag("ceil_mode", False):
        raise NotImplementedError("divisor_override of windows that hang over")
    mean = step.emit("mean", _pooled(step, "avg", count_include_pad=True))
    window = math.prod(step.sizes("kernel_size", _window_rank(step)))
    return relax.op.multiply(mean, step.number(window / step.integer("divisor_override")))


def _adaptive_avg_pool(step: TorchStep) -> Result:
    """Return means of windows; to a larger size by a product with constant weights."""
    rank = _window_rank(step)
    target = step.sizes("output_size", rank)
    if rank < 3 and any(n > size for n, size in zip(target, shape(step.x)[2:], strict=True)):
        return resized_by_products(step.emit, step.x, target, mean_weights)
    pool = getattr(relax.op.nn, f"adaptive_avg_pool{rank}d")
    return pool(step.x, _output_size(step))


def _adaptive_max_pool(step: TorchStep) -> Result:
    """Return maxima, the first result of two."""
    target, sizes = _output_size(step), shape(step.x)[2:]
    if set(target) == {1}:
        return [relax.op.max(step.x, list(range(2, step.rank)), keepdims=True)]
    if all(size % wanted == 0 for size, wanted in zip(sizes, target, strict=True)):
        window = [size // wanted for size, wanted in zip(sizes, target, strict=True)]
        pool = getattr(relax.op.nn, f"max_pool{_window_rank(step)}d")
        return [pool(step.x, window, window)]
    x = step.x
    for axis, (size, wanted) in enumerate(zip(sizes, target, strict=True), start=2):
        pixels = relax.const(_window_pixels(size, wanted), "int64")
        windows = step.emit("windows", relax.op.take(x, pixels, axis, mode="clip"))
        x = step.emit("maxima", relax.op.max(windows, [axis + 1]))
    return [x]


def _window_pixels(size: int, wanted: int) -> np.ndarray:
    """Return the pixels of each adaptive window, shape (wanted, widest); short ones repeat one."""
    ends = -(-np.arange(1, wanted + 1) * size // wanted)
    starts = np.arange(wanted) * size // wanted
    steps = np.arange((ends - starts).max())
    return np.minimum(starts[:, None] + steps, ends[:, None] - 1)


def _output_size(step: TorchStep) -> list[int]:
    """Return how many windows there are along each axis; more than pixels, if pixels repeat."""
    sizes = step.sizes("output_size", _window_rank(step))
    if math.prod(sizes) > max(MOST_REPEATED, math.prod(shape(step.x)[2:])):
        raise NotImplementedError(f"pooling {shape(step.x)} to the larger {sizes}")
    return sizes


POOLING: dict[str, Converter] = {
    "adaptive_avg_pool1d": _adaptive_avg_pool,
    "adaptive_avg_pool2d": _adaptive_avg_pool,
    "adaptive_avg_pool3d": _adaptive_avg_pool,
    "adaptive_max_pool1d": _adaptive_max_pool,
    "adaptive_max_pool2d": _adaptive_max_pool,
    "adaptive_max_pool3d": _adaptive_max_pool,
    "_adaptive_avg_pool2d": _adaptive_avg_pool,
    "_adaptive_avg_pool3d": _adaptive_avg_pool,
    "avg_pool1d": _avg_pool,
    "avg_pool2d": _avg_pool,
    "avg_pool3d": _avg_pool,
    "max_pool1d": _max_pool,
    "max_pool1d_with_indices": _max_pool_with_indices,
    "max_pool2d": _max_pool,
    "max_pool2d_with_indices": _max_pool_with_indices,
    "max_pool3d": _max_pool,
    "max_pool3d_with_indices": _max_pool_with_indices,
    "max_unpool2d": _max_unpool,
    "max_unpool3d": _max_unpool,
}
