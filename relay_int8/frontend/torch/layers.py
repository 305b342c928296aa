"""PyTorch operators with weights, and pooling."""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from relay_int8.frontend.batch_statistics import normalized_by_batch
from relay_int8.frontend.einsum import einsum
from relay_int8.frontend.resampling import mean_weights, resized_by_products
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import dtype, shape

FACTORS = ("other", "mat2", "vec", "tensor")
"""What the second operand of a product is called, by matmul, mm, mv and dot."""
MOST_REPEATED = 4096
"""Windows of a pooling that makes images larger; a pyramid has 36, a damaged file any number."""


def _convolution(step: TorchStep) -> Result:
    """Convolve in one to three dimensions; ``padding`` may be the text "same" or "valid"."""
    x, w = step.x, step.tensor("weight")
    rank = len(shape(w)) - 2
    if not 1 <= rank <= 3 or len(shape(x)) != rank + 2:
        raise ValueError(f"its weight {shape(w)} does not fit an input {shape(x)}")
    if step.arguments.get("transposed"):
        return _transposed_convolution(step)
    strides = step.sizes("stride", rank, 1)
    dilation = step.sizes("dilation", rank, 1)
    y = (relax.op.nn.conv1d, relax.op.nn.conv2d, relax.op.nn.conv3d)[rank - 1](
        x,
        w,
        strides=strides,
        padding=_padding(step, shape(w)[2:], dilation),
        dilation=dilation,
        groups=step.integer("groups", 1),
    )
    return _with_bias(step, y, shape(w)[0])


def _padding(step: TorchStep, kernel: tuple[int, ...], dilation: list[int]) -> list[int]:
    """Return widths before each axis, then after each."""
    if not isinstance(step.arguments.get("padding"), str):
        return step.sizes("padding", len(kernel), 0, least=0) * 2
    mode = step.text("padding", "valid")
    if mode not in ("same", "valid"):
        raise ValueError(f"its padding is {mode!r}, not 'same' or 'valid'")
    total = [d * (k - 1) * (mode == "same") for k, d in zip(kernel, dilation, strict=True)]
    return [width // 2 for width in total] + [width - width // 2 for width in total]


def _transposed_convolution(step: TorchStep) -> Result:
    """Convolve transposed, in one or two dimensions."""
    x, w = step.x, step.tensor("weight")
    rank, groups = len(shape(w)) - 2, step.integer("groups", 1)
    if rank not in (1, 2) or len(shape(x)) != rank + 2:
        raise NotImplementedError(f"a transposed convolution of {shape(x)} by {shape(w)}")
    y = (relax.op.nn.conv1d_transpose, relax.op.nn.conv2d_transpose)[rank - 1](
        x,
        w,
        strides=step.sizes("stride", rank, 1),
        padding=step.sizes("padding", rank, 0, least=0) * 2,
        output_padding=step.sizes("output_padding", rank, 0, least=0),
        dilation=step.sizes("dilation", rank, 1),
        groups=groups,
    )
    return _with_bias(step, y, shape(w)[1] * groups)


def _with_bias(step: TorchStep, y: relax.Expr, channels: int) -> relax.Expr:
    bias = step.optional_tensor("bias")
    if bias is None:
        return y
    if shape(bias) != (channels,):
        raise ValueError(f"its bias is {shape(bias)}, not {channels}")
    var = step.emit("conv", y)
    ones = (1,) * (len(shape(var)) - 2)
    return relax.op.add(var, step.emit("bias", relax.op.reshape(bias, (1, channels, *ones))))


def _linear(step: TorchStep) -> Result:
    """Multiply by the transposed weights, or by a vector of them."""
    w, bias = step.tensor("weight"), step.optional_tensor("bias")
    if len(shape(w)) not in (1, 2):
        raise NotImplementedError(f"a linear layer with weight {shape(w)}")
    if len(shape(w)) == 2:
        w = step.emit("weight", relax.op.permute_dims(w, [1, 0]))
    y = relax.op.matmul(step.x, w)
    return y if bias is None else relax.op.add(step.emit("matmul", y), bias)


def _addmm(step: TorchStep) -> Result:
    """``beta * self + alpha * mat1 @ mat2``; torch writes a linear layer so."""
    if step.real("beta", 1.0) != 1.0 or step.real("alpha", 1.0) != 1.0:
        raise NotImplementedError("factors alpha and beta other than 1")
    y = relax.op.matmul(step.tensor("mat1"), step.tensor("mat2"))
    return relax.op.add(step.emit("matmul", y), step.x)


def _matmul(step: TorchStep) -> Result:
    other = next((name for name in FACTORS if name in step.arguments), FACTORS[0])
    return relax.op.matmul(step.x, step.tensor(other))


def _baddbmm(step: TorchStep) -> Result:
    """``beta * self + alpha * batch1 @ batch2``."""
    y = step.emit("matmul", relax.op.matmul(step.tensor("batch1"), step.tensor("batch2")))
    alpha, beta = step.real("alpha", 1.0), step.real("beta", 1.0)
    if alpha != 1.0:
        y = step.emit("alpha", relax.op.multiply(y, step.number(alpha)))
    if beta == 0.0:
        return y
    x = step.x
    if beta != 1.0:
        x = step.emit("beta", relax.op.multiply(x, step.number(beta)))
    return relax.op.add(y, x)


def _einsum(step: TorchStep) -> Result:
    return einsum(step.tensors(), step.text("equation", ""), step.emit)


def _batch_norm(step: TorchStep) -> Result:
    """Normalize with the moving statistics, or those of the batch where a norm keeps none.

    A factor or a shift that is left out does nothing.
    """
    if step.arguments.get("training"):
        if step.optional_tensor("running_mean") is not None:
            raise ValueError("it is in training mode: call model.eval() before the export")
        gamma, beta = step.optional_tensor("weight"), step.optional_tensor("bias")
        return normalized_by_batch(step.emit, step.x, gamma, beta, step.real("eps", 1e-5))
    channels = shape(step.x)[1]
    neutral = {"weight": 1, "bias": 0, "running_mean": 0, "running_var": 1}
    values = []
    for name, value in neutral.items():
        given = step.optional_tensor(name)
        if given is None:
            if name.startswith("running"):
                raise NotImplementedError("it has no moving statistics")
            given = relax.const(np.full(channels, value, dtype(step.x)))
        if shape(given) != (channels,):
            raise ValueError(f"its {name} is {shape(given)}, not {channels}")
        values.append(given)
    norm = relax.op.nn.batch_norm(step.x, *values, 1, step.real("eps", 1e-5), training=False)
    return relax.TupleGetItem(step.emit("batch_norm", norm), 0)


def _batch_norm_with_statistics(step: TorchStep) -> Result:
    """Return the first result of three: statistics are for training and are not computed."""
    return [_batch_norm(step)]


def _layer_norm(step: TorchStep) -> Result:
    axes = list(range(step.rank - len(step.integers("normalized_shape")), step.rank))
    dims = [shape(step.x)[axis] for axis in axes]
    gamma, beta = step.optional_tensor("weight"), step.optional_tensor("bias")
    return relax.op.nn.layer_norm(
        step.x,
        relax.const(np.ones(dims, dtype(step.x))) if gamma is None else gamma,
        relax.const(np.zeros(dims, dtype(step.x))) if beta is None else beta,
        axes,
        step.real("eps", 1e-5),
    )


def _rms_norm(step: TorchStep) -> Result:
    """Divide by the root of the mean square over the last axes."""
    axes = list(range(step.rank - len(step.integers("normalized_shape")), step.rank))
    dims = [shape(step.x)[axis] for axis in axes]
    gamma = step.optional_tensor("weight")
    epsilon = step.arguments.get("eps")
    return relax.op.nn.rms_norm(
        step.x,
        relax.const(np.ones(dims, dtype(step.x))) if gamma is None else gamma,
        axes,
        float(np.finfo(np.float32).eps) if epsilon is None else step.real("eps"),
    )


def _instance_norm(step: TorchStep) -> Result:
    """Normalize each channel of each image by its own statistics."""
    channels, kind = shape(step.x)[1], dtype(step.x)
    gamma, beta = step.optional_tensor("weight"), step.optional_tensor("bias")
    if not step.flag("use_input_stats", True):
        raise NotImplementedError("an instance norm by moving statistics")
    return relax.op.nn.group_norm(
        step.x,
        relax.const(np.ones(channels, kind)) if gamma is None else gamma,
        relax.const(np.zeros(channels, kind)) if beta is None else beta,
        channels,
        1,
        list(range(2, step.rank)),
        step.real("eps", 1e-5),
    )


def _weight_norm(step: TorchStep) -> Result:
    """Scale directions ``v`` to the lengths ``g``, each along all axes but one."""
    v, g = step.tensor("v"), step.tensor("g")
    kept = step.axis("dim", 0, rank=len(shape(v)))
    axes = [axis for axis in range(len(shape(v))) if axis != kept]
    squares = step.emit("squares", relax.op.multiply(v, v))
    total = step.emit("total", relax.op.sum(squares, axes, keepdims=True))
    length = step.emit("length", relax.op.sqrt(total))
    factor = step.emit("factor", relax.op.divide(g, length))
    return relax.op.multiply(v, factor)


def _glu(step: TorchStep) -> Result:
    """Return one half of the channels times the logistic function of the other."""
    axis = step.axis("dim", -1)
    size = shape(step.x)[axis]
    if size % 2:
        raise ValueError(f"it halves {size} channels")
    values, gate = (
        step.emit(name, relax.op.strided_slice(step.x, [axis], [begin], [begin + size // 2]))
        for name, begin in (("values", 0), ("gate", size // 2))
    )
    return relax.op.multiply(values, step.emit("sigmoid", relax.op.sigmoid(gate)))


def _layer_norm_with_statistics(step: TorchStep) -> Result:
    """Return the first result of three: statistics are for training and are not computed."""
    return [_layer_norm(step)]


def _group_norm(step: TorchStep) -> Result:
    channels = shape(step.x)[1]
    gamma, beta = step.optional_tensor("weight"), step.optional_tensor("bias")
    return relax.op.nn.group_norm(
        step.x,
        relax.const(np.ones(channels, dtype(step.x))) if gamma is None else gamma,
        relax.const(np.zeros(channels, dtype(step.x))) if beta is None else beta,
        step.integer("group" if "group" in step.arguments else "num_groups"),
        1,
        list(range(2, step.rank)),
        step.real("eps", 1e-5),
    )


def _group_norm_with_statistics(step: TorchStep) -> Result:
    """Return the first result of three, as of layer norm."""
    return [_group_norm(step)]


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


def _window_rank(step: TorchStep) -> int:
    if step.rank not in (3, 4, 5):
        raise NotImplementedError(
            f"pooling of {shape(step.x)}; sequences have 3 axes, images 4 and videos 5, the batch "
            "with them"
        )
    return step.rank - 2


def _max_pool(step: TorchStep) -> Result:
    return _pooled(step, "max")


def _max_pool_with_indices(step: TorchStep) -> Result:
    """Return the maxima, the first result of two; their indices are not computed."""
    return [_max_pool(step)]


def _avg_pool(step: TorchStep) -> Result:
    if step.arguments.get("divisor_override") is not None:
        raise NotImplementedError("divisor_override")
    counted = step.flag("count_include_pad", True)
    return _pooled(step, "avg", count_include_pad=counted)


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


LAYERS: dict[str, Converter] = {
    "_native_batch_norm_legit_no_training": _batch_norm_with_statistics,
    "_weight_norm": _weight_norm,
    "adaptive_avg_pool1d": _adaptive_avg_pool,
    "adaptive_avg_pool2d": _adaptive_avg_pool,
    "adaptive_avg_pool3d": _adaptive_avg_pool,
    "adaptive_max_pool1d": _adaptive_max_pool,
    "adaptive_max_pool2d": _adaptive_max_pool,
    "adaptive_max_pool3d": _adaptive_max_pool,
    "_adaptive_avg_pool2d": _adaptive_avg_pool,
    "_adaptive_avg_pool3d": _adaptive_avg_pool,
    "addmm": _addmm,
    "avg_pool1d": _avg_pool,
    "avg_pool2d": _avg_pool,
    "avg_pool3d": _avg_pool,
    "baddbmm": _baddbmm,
    "batch_norm": _batch_norm,
    "bmm": _matmul,
    "conv1d": _convolution,
    "conv2d": _convolution,
    "conv3d": _convolution,
    "conv_transpose1d": _transposed_convolution,
    "conv_transpose2d": _transposed_convolution,
    "convolution": _convolution,
    "dot": _matmul,
    "einsum": _einsum,
    "glu": _glu,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "layer_norm": _layer_norm,
    "linear": _linear,
    "matmul": _matmul,
    "max_pool1d": _max_pool,
    "max_pool1d_with_indices": _max_pool_with_indices,
    "max_pool2d": _max_pool,
    "max_pool2d_with_indices": _max_pool_with_indices,
    "max_pool3d": _max_pool,
    "max_pool3d_with_indices": _max_pool_with_indices,
    "mm": _matmul,
    "mv": _matmul,
    "native_group_norm": _group_norm_with_statistics,
    "native_layer_norm": _layer_norm_with_statistics,
    "rms_norm": _rms_norm,
}
