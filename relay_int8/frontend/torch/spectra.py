"""PyTorch's Fourier transforms, of axes and of frames, as products with constant weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from tvm import relax

from relay_int8.frontend.fourier import Array, inverse_weights, waves
from relay_int8.frontend.torch.step import ComplexTensor, Converter, Result, TorchStep, axis_of
from relay_int8.graph.dataflow import constant, shape

Values: TypeAlias = relax.Expr | ComplexTensor
NORMS = ("by_none", "by_root", "by_size")
"""Factors of a transform: 1, 1 / sqrt(n), 1 / n; the numbers that decomposed programs have."""
NAMED_NORMS = {
    "backward": ("by_none", "by_size"),
    "ortho": ("by_root", "by_root"),
    "forward": ("by_size", "by_none"),
}
"""Torch's name -> norm of a transform and of an inverse one."""
LEAST_ENVELOPE = 1e-11  # below which torch refuses to divide by the sum of windows


def complex_operand(step: TorchStep, name: str = "self") -> ComplexTensor:
    """Return an operand of complex numbers; the imaginary parts of a real one are zero."""
    x = step.arguments[name]
    if isinstance(x, ComplexTensor):
        return x
    return ComplexTensor(x, step.emit("zeros", relax.op.zeros_like(x)))


def _factor(norm: str, size: int) -> float:
    return {"by_none": 1.0, "by_root": 1 / math.sqrt(size), "by_size": 1 / size}[norm]


def _times(step: TorchStep, x: relax.Expr, axis: int, weights: Array) -> relax.Expr:
    """Multiply along an axis by a matrix (values, frequencies)."""
    rank = len(shape(x))
    order = [*(i for i in range(rank) if i != axis), axis]
    last = x if axis == rank - 1 else step.emit("turned", relax.op.permute_dims(x, order))
    product = relax.op.matmul(last, relax.const(weights.astype(np.float32)))
    if axis == rank - 1:
        return product
    return relax.op.permute_dims(
        step.emit("product", product), [order.index(i) for i in range(rank)]
    )


def _cut(step: TorchStep, x: relax.Expr, axis: int, size: int) -> relax.Expr:
    """Return the first values along an axis; what is missing are zeros, which weights leave out."""
    if shape(x)[axis] <= size:
        return x
    return step.emit("cut", relax.op.strided_slice(x, [axis], [0], [size]))


def _transformed(
    step: TorchStep, x: Values, axis: int, size: int, count: int, inverse: bool, norm: str
) -> ComplexTensor:
    """Return ``count`` frequencies of ``size`` values along an axis."""
    factor = _factor(norm, size)
    c, s = (wave * factor for wave in waves(size, count))
    s = s if inverse else 0.0 - s
    if isinstance(x, ComplexTensor):
        parts = [_cut(step, part, axis, size) for part in (x.real, x.imaginary)]
        read = shape(parts[0])[axis]
        joined = step.emit("parts", relax.op.concat(parts, axis))
        weights = [np.concatenate(pair) for pair in ((c[:read], -s[:read]), (s[:read], c[:read]))]
    else:
        joined = _cut(step, x, axis, size)
        read = shape(joined)[axis]
        weights = [c[:read], s[:read]]
    return ComplexTensor(*(step.emit("part", _times(step, joined, axis, w)) for w in weights))


def _to_reals(step: TorchStep, x: ComplexTensor, axis: int, size: int, norm: str) -> relax.Expr:
    """Return the ``size`` reals whose first frequencies are given; the others mirror them."""
    count = size // 2 + 1
    parts = [_cut(step, part, axis, count) for part in (x.real, x.imaginary)]
    read = shape(parts[0])[axis]
    halves = np.split(inverse_weights(size) * _factor(norm, size), 2)
    joined = step.emit("parts", relax.op.concat(parts, axis))
    return _times(step, joined, axis, np.concatenate([half[:read] for half in halves]))


def _axes(step: TorchStep, rank: int, kind: str) -> Iterator[tuple[int, int | None]]:
    """Yield each axis of a transform, and the size that is asked for."""
    if kind.endswith("fft"):
        axes = [step.integer("dim", -1)]
        sizes = [step.arguments.get("n")]
    else:
        given = step.arguments.get("s")
        default = [-2, -1] if kind.endswith("2") else list(range(-len(given or range(rank)), 0))
        axes = step.integers("dim", default)
        sizes = [None] * len(axes) if given is None else list(step.integers("s"))
    for axis, size in zip(axes, sizes, strict=True):
        yield axis_of(axis, rank), None if size == -1 else size


def _fourier(kind: str) -> Converter:
    """Return the converter of ``fft_<kind>``."""
    inverse, real = kind.startswith("i"), "rfft" in kind

    def _convert(step: TorchStep) -> Result:
        x: Values = step.arguments["self"]
        first = x.real if isinstance(x, ComplexTensor) else x
        norm = NAMED_NORMS[step.text("norm", "backward")][inverse]
        axes = list(_axes(step, len(shape(first)), kind))
        dims = shape(first)
        if inverse and real:
            *others, (last, wanted) = axes
            for axis, given in others:
                size = given or dims[axis]
                x = _transformed(step, x, axis, size, size, inverse, norm)
            z = x if isinstance(x, ComplexTensor) else complex_operand(step)
            return _to_reals(step, z, last, wanted or 2 * (dims[last] - 1), norm)
        for number, (axis, given) in enumerate(axes[::-1]):
            size = given or dims[axis]
            count = size // 2 + 1 if real and number == 0 else size
            x = _transformed(step, x, axis, size, count, inverse, norm)
        return x

    return _convert


def _decomposed(step: TorchStep) -> Result:
    """Read what ``run_decompositions`` makes of all transforms."""
    x: Values = step.arguments["self"]
    first = x.real if isinstance(x, ComplexTensor) else x
    dims = shape(first)
    axes = [axis_of(axis, len(dims)) for axis in step.integers("dim")]
    norm = NORMS[step.integer("normalization")]
    back = step.operator.endswith("c2r")
    inverse = back or not step.arguments.get("forward", True)
    onesided = bool(step.arguments.get("onesided"))
    for number, axis in enumerate(axes[:-1] if back else axes[::-1]):
        count = dims[axis] // 2 + 1 if onesided and number == 0 else dims[axis]
        x = _transformed(step, x, axis, dims[axis], count, inverse, norm)
    if not back:
        return x
    if not isinstance(x, ComplexTensor):
        raise ValueError("its operand is of real numbers")
    return _to_reals(step, x, axes[-1], step.integer("last_dim_size"), norm)


def _window(step: TorchStep, length: int) -> Array:
    """Return the window of frames, with zeros on both sides where it is shorter."""
    size = step.integer("win_length", length)
    given = step.optional_tensor("window")
    window = np.ones(size) if given is None else constant(given)
    if window is None or window.shape != (size,) or size > length:
        raise NotImplementedError(f"frames of {length} by a window that is computed or no vector")
    before = (length - size) // 2
    return np.pad(np.asarray(window, np.float64), (before, length - size - before))


def _frames_transformed(step: TorchStep) -> Result:
    """Transform the frames of a signal: convolutions with constant weights.

    (n, samples) becomes (n, frequencies, frames). What a model pads is an operator of its own.
    """
    length = step.integer("n_fft")
    hop = step.integer("hop_length", length // 4)
    if step.arguments.get("center"):
        raise NotImplementedError("a transform that pads the signal itself")
    onesided = step.arguments.get("onesided")
    count = length if onesided is False else length // 2 + 1
    window = _window(step, length) * (length**-0.5 if step.arguments.get("normalized") else 1)
    *outer, samples = shape(step.x)
    image = step.emit("image", relax.op.reshape(step.x, (math.prod(outer), 1, 1, samples)))
    c, s = waves(length, count)
    parts = []
    for name, wave in (("real", c), ("imaginary", 0.0 - s)):
        kernel = (wave.T * window).astype(np.float32).reshape(count, 1, 1, length)
        y = step.emit(name, relax.op.nn.conv2d(image, relax.const(kernel), strides=[1, hop]))
        parts.append(step.emit(name, relax.op.reshape(y, (*outer, count, shape(y)[-1]))))
    if step.arguments.get("return_complex"):
        return ComplexTensor(*parts)
    return relax.op.stack(parts, -1)


def _frames_joined(step: TorchStep) -> Result:
    """Add up the signals of frames, each times a window: a transposed convolution.

    The sum is divided by that of the squared windows, as torch does it.
    """
    z = step.arguments["self"]
    if not isinstance(z, ComplexTensor):
        raise ValueError("its operand is of real numbers")
    length = step.integer("n_fft")
    hop = step.integer("hop_length", length // 4)
    *outer, count, frames = shape(z.real)
    if count != length // 2 + 1 or step.arguments.get("return_complex"):
        raise NotImplementedError("frames of complex numbers")
    window = _window(step, length)
    norm = "by_root" if step.arguments.get("normalized") else "by_size"
    kernel = inverse_weights(length) * _factor(norm, length) * window
    envelope = np.zeros(length + hop * (frames - 1))
    for frame in range(frames):
        envelope[frame * hop :][:length] += window**2
    start = length // 2 if step.flag("center", True) else 0
    wanted = step.arguments.get("length")
    end = len(envelope) - start if wanted is None else start + wanted
    if end > len(envelope) or envelope[start:end].min() < LEAST_ENVELOPE:
        raise NotImplementedError("windows that do not cover the signal")
    n = math.prod(outer)
    spectrum = step.emit("parts", relax.op.concat([z.real, z.imaginary], len(outer)))
    image = step.emit("image", relax.op.reshape(spectrum, (n, 2 * count, 1, frames)))
    weights = relax.const(kernel.astype(np.float32).reshape(2 * count, 1, 1, length))
    y = step.emit("sum", relax.op.nn.conv2d_transpose(image, weights, strides=[1, hop]))
    y = step.emit("signal", relax.op.strided_slice(y, [3], [start], [end]))
    y = step.emit("row", relax.op.reshape(y, (*outer, end - start)))
    return relax.op.multiply(y, relax.const((1 / envelope[start:end]).astype(np.float32)))


TRANSFORMS: dict[str, Converter] = {
    f"fft_{inverse}{real}fft{axes}": _fourier(f"{inverse}{real}fft{axes}")
    for inverse in ("", "i")
    for real in ("", "r")
    for axes in ("", "2", "n")
} | {"_fft_c2c": _decomposed, "_fft_c2r": _decomposed, "_fft_r2c": _decomposed}
"""Operators of the namespace aten, of real and of complex numbers."""
SPECTRA: dict[str, Converter] = TRANSFORMS | {"istft": _frames_joined, "stft": _frames_transformed}
