"""TFLite's convolutions of volumes (videos, scans), NDHWC in the file, NCDHW here."""

from __future__ import annotations

from tvm import relax

from relay_int8.frontend.onnx.operators.auto_pad import auto_pad
from relay_int8.frontend.tflite.layers import MODES, gradient_padding, mode, with_bias
from relay_int8.frontend.tflite.step import Converter, TfliteStep
from relay_int8.frontend.tflite.tensors import Result
from relay_int8.graph.dataflow import shape

TO_NCDHW, TO_NDHWC = (0, 4, 1, 2, 3), (0, 2, 3, 4, 1)
AXES = 3


def _convolution(step: TfliteStep) -> Result:
    x, w = step.moved(0, TO_NCDHW), step.moved(1, (4, 3, 0, 1, 2))
    if shape(x)[1] != shape(w)[1]:
        raise ValueError(f"{shape(x)[1]} channels for weights {list(step.tensor(1).shape)}")
    strides, dilation = _sizes(step, "stride"), _sizes(step, "dilation")
    y = relax.op.nn.conv3d(
        x,
        w,
        strides=strides,
        padding=auto_pad(MODES[mode(step)], shape(x)[2:], shape(w)[2:], strides, dilation),
        dilation=dilation,
    )
    return _in_file_order(step, with_bias(step, y, 2, AXES))


def _transposed(step: TfliteStep) -> Result:
    """Convolve transposed to a given size."""
    wanted = step.outputs[0].shape
    if step.known(0) is not None:
        wanted = step.integers(0, "shape")
    x, w = step.moved(2, TO_NCDHW), step.moved(1, (4, 3, 0, 1, 2))
    strides = _sizes(step, "stride")
    if set(_sizes(step, "dilation")) != {1}:
        raise NotImplementedError("a dilated kernel")
    padding, added = gradient_padding(
        shape(x)[2:], shape(w)[2:], strides, wanted[1:-1], same=mode(step) == "SAME"
    )
    y = relax.op.nn.conv3d_transpose(x, w, strides=strides, padding=padding, output_padding=added)
    return _in_file_order(step, with_bias(step, y, 3, AXES))


def _in_file_order(step: TfliteStep, y: relax.Expr) -> relax.Expr:
    y = step.emit("ncdhw", step.activated(y))
    return relax.op.permute_dims(y, TO_NDHWC)


def _sizes(step: TfliteStep, name: str) -> tuple[int, ...]:
    """Return an option of depth, height and width, each 1 or more."""
    return tuple(step.integer(f"{name}_{axis}", 1) for axis in "dhw")


VOLUMES: dict[str, Converter] = {"CONV_3D": _convolution, "CONV_3D_TRANSPOSE": _transposed}
