"""TFLite operators with weights: convolutions, transposed ones, fully connected layers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm import relax

from relay_int8.frontend.onnx.operators.auto_pad import auto_pad
from relay_int8.frontend.tflite.dilation import PADS
from relay_int8.frontend.tflite.schema import CUSTOM_OPTIONS, PADDINGS
from relay_int8.frontend.tflite.step import Converter, TfliteStep
from relay_int8.frontend.tflite.tensors import Image, Result
from relay_int8.graph.dataflow import shape

Pair = tuple[int, int]
MODES = {"SAME": "SAME_UPPER", "VALID": "VALID"}


def _convolution(step: TfliteStep) -> Result:
    """Convolve; fewer channels of weights than of the image make groups."""
    x, w = step.image(0), step.moved(1, (0, 3, 1, 2))
    channels, fan_in = shape(x)[1], shape(w)[1]
    if channels % fan_in:
        raise ValueError(f"{channels} channels for weights {list(step.tensor(1).shape)}")
    return _convolved(step, x, w, channels // fan_in)


def _depthwise(step: TfliteStep) -> Result:
    """Convolve each channel by filters of its own."""
    x, w = step.image(0), step.moved(1, (3, 0, 1, 2))
    channels = shape(x)[1]
    if shape(w)[0] % channels or shape(w)[1] != 1:
        raise ValueError(f"{channels} channels for weights {list(step.tensor(1).shape)}")
    return _convolved(step, x, w, channels)


def _convolved(step: TfliteStep, x: relax.Expr, w: relax.Expr, groups: int) -> Result:
    strides = sizes(step, "stride")
    dilation = sizes(step, "dilation")
    y = relax.op.nn.conv2d(
        x,
        w,
        strides=strides,
        padding=step.options.get(PADS)
        or padding(step, shape(x)[2:], shape(w)[2:], strides, dilation),
        dilation=dilation,
        groups=groups,
    )
    return Image(step.activated(with_bias(step, y, 2)))


def sizes(step: TfliteStep, name: str) -> Pair:
    """Return an option of height and width, each 1 or more."""
    return step.integer(f"{name}_h", 1), step.integer(f"{name}_w", 1)


def padding(
    step: TfliteStep,
    image: Sequence[int],
    kernel: Sequence[int],
    strides: Pair,
    dilation: Pair = (1, 1),
) -> list[int]:
    """Return the widths at top, left, bottom and right: SAME puts the odd pixel last."""
    return auto_pad(MODES[mode(step)], image, kernel, strides, dilation)


def mode(step: TfliteStep) -> str:
    """Return how an operator pads: SAME or VALID."""
    first = 1 if step.operator.kind in CUSTOM_OPTIONS else 0  # TfLitePadding counts from 1
    code = step.integer("padding", first)
    if code >= first + len(PADDINGS):
        raise ValueError(f"its padding is {code}, neither SAME nor VALID")
    return PADDINGS[code - first]


def with_bias(step: TfliteStep, y: relax.Expr, index: int, axes: int = 2) -> relax.Expr:
    """Add the bias of a convolution over so many axes, where it has one."""
    if not step.has(index):
        return y
    bias = step.emit("bias", relax.op.reshape(step.plain(index), (1, -1, *(1,) * axes)))
    return relax.op.add(step.emit("conv", y), bias)


def _transposed(step: TfliteStep) -> Result:
    """Convolve transposed to a given size."""
    wanted = step.outputs[0].shape
    if step.known(0) is not None:
        wanted = step.integers(0, "shape")
    y = _gradient(step, step.image(2), wanted, same=mode(step) == "SAME")
    return Image(step.activated(with_bias(step, y, 3)))


def _transposed_with_bias(step: TfliteStep) -> Result:
    """Convolve transposed to the size that the file has, as MediaPipe's own operator does."""
    y = _gradient(step, step.image(0), step.outputs[0].shape, same=mode(step) == "SAME")
    return Image(with_bias(step, y, 2))


def _gradient(step: TfliteStep, x: relax.Expr, wanted: Sequence[int], *, same: bool) -> relax.Expr:
    """Convolve transposed, as the gradient of a convolution of images of the size ``wanted``."""
    w = step.moved(1, (3, 0, 1, 2))
    strides, kernel = sizes(step, "stride"), shape(w)[2:]
    if len(wanted) != 4:
        raise ValueError(f"its shape is {list(wanted)}")
    padding, added = gradient_padding(shape(x)[2:], kernel, strides, wanted[1:3], same=same)
    return relax.op.nn.conv2d_transpose(
        x, w, strides=strides, padding=padding, output_padding=added
    )


def gradient_padding(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    wanted: Sequence[int],
    *,
    same: bool,
) -> tuple[list[int], list[int]]:
    """Return what a transposed convolution to ``wanted`` crops at both ends, and what it adds."""
    before, after, added = [], [], []
    for size, s, k, out in zip(sizes, strides, kernel, wanted, strict=True):
        surplus = (size - 1) * s + k - out
        before.append(max(0, surplus) // 2 if same else 0)
        after.append(max(0, surplus) - before[-1])
        added.append(max(0, -surplus))
        if added[-1] >= s:
            raise ValueError(f"{size} pixels with stride {s} do not reach {out}")
    return [*before, *after], added


def _fully_connected(step: TfliteStep) -> Result:
    """Multiply rows by the transposed weights."""
    if step.integer("weights_format", 0):
        raise NotImplementedError("weights in a shuffled order")
    x, w = step.plain(0), step.moved(1, (1, 0))
    fan_in, dims = shape(w)[0], shape(x)
    if not (step.options["keep_num_dims"] and dims[-1] == fan_in) and len(dims) != 2:
        if math.prod(dims) % fan_in:
            raise ValueError(f"{list(dims)} for weights {list(step.tensor(1).shape)}")
        rows = (math.prod(dims) // fan_in, fan_in)
        x = step.emit("rows", relax.op.reshape(x, rows))
    y = relax.op.matmul(x, w)
    if step.has(2):
        y = relax.op.add(step.emit("matmul", y), step.plain(2))
    return step.activated(y)


def _batch_matmul(step: TfliteStep) -> Result:
    """Multiply matrices of two tensors, each transposed first if its option says so."""
    operands = []
    for index, name in enumerate("xy"):
        x = step.plain(index)
        order = list(range(len(shape(x))))
        if len(order) < 2:
            raise ValueError(f"its operand {name} is {list(shape(x))}, no matrix")
        if step.options[f"adj_{name}"]:
            order[-2:] = order[-1], order[-2]
            x = step.emit(f"transposed_{name}", relax.op.permute_dims(x, order))
        operands.append(x)
    return relax.op.matmul(*operands)


LAYERS: dict[str, Converter] = {
    "BATCH_MATMUL": _batch_matmul,
    "CUSTOM Convolution2DTransposeBias": _transposed_with_bias,
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _fully_connected,
    "TRANSPOSE_CONV": _transposed,
}
