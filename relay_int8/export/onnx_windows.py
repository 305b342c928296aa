"""Operators over windows and regions of a tensor as ONNX nodes: convolutions, pools, pads, cuts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from relay_int8.export.onnx_nodes import NodeWriter, Operation, Writer, ints
from relay_int8.graph import dataflow

PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
RESIZE_MODES = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}
NEAREST_MODES = {
    "floor": "floor",
    "ceil": "ceil",
    "round": "round_prefer_ceil",
    "round_prefer_floor": "round_prefer_floor",
    "round_prefer_ceil": "round_prefer_ceil",
}
CHANNELS_FIRST = ("NCW", "NCHW", "NCDHW")


def conv_attributes(call: Any) -> dict[str, Any]:
    """Return the ONNX attributes of a convolution; NotImplementedError for another layout."""
    attrs = call.attrs
    _require_channels_first(attrs.data_layout)
    return {
        "strides": ints(attrs.strides),
        "pads": ints(attrs.padding),
        "dilations": ints(attrs.dilation),
        "group": int(attrs.groups),
    }


def _require_channels_first(layout: str) -> None:
    if layout not in CHANNELS_FIRST:
        raise NotImplementedError(f"its layout is {layout}; ONNX has channels first")


def _conv(writer: NodeWriter, op: Operation) -> str:
    return writer.node("Conv", op.inputs, op.output, **conv_attributes(op.call))


def _conv_transpose(writer: NodeWriter, op: Operation) -> str:
    attributes = conv_attributes(op.call) | {"output_padding": ints(op.attrs.output_padding)}
    return writer.node("ConvTranspose", op.inputs, op.output, **attributes)


def _pool_attributes(op: Operation) -> dict[str, Any]:
    attrs = op.attrs
    _require_channels_first(attrs.layout)
    dilation = ints(attrs.dilation)
    # ONNX Runtime's integer pooling does not know the attribute, not even its default.
    dilated = {"dilations": dilation} if set(dilation) != {1} else {}
    return dilated | {
        "kernel_shape": ints(attrs.pool_size),
        "strides": ints(attrs.strides),
        "pads": ints(attrs.padding),
        "ceil_mode": int(_rounds_up(op)),
    }


def _rounds_up(op: Operation) -> bool:
    """Say whether a pool's windows may hang over; Relax drops those that start in the padding."""
    attrs, rank = op.attrs, len(op.shape) - 2
    pads = ints(attrs.padding)
    steps = [
        (size + pads[i] + pads[i + rank] - dilation * (kernel - 1) - 1, stride)
        for i, (size, kernel, stride, dilation) in enumerate(
            zip(
                op.input_shape()[2:],
                *map(ints, (attrs.pool_size, attrs.strides, attrs.dilation)),
                strict=True,
            )
        )
    ]
    if op.shape[2:] == tuple(span // stride + 1 for span, stride in steps):
        return False
    if op.shape[2:] == tuple(-(-span // stride) + 1 for span, stride in steps):
        return True
    raise NotImplementedError("it rounds up in one direction alone")


def _max_pool(writer: NodeWriter, op: Operation) -> str:
    attributes = _pool_attributes(op)
    if _is_global(op, attributes):
        return writer.node("GlobalMaxPool", op.inputs, op.output)
    return writer.node("MaxPool", op.inputs, op.output, **attributes)


def _average_pool(writer: NodeWriter, op: Operation) -> str:
    attributes = _pool_attributes(op)
    if _is_global(op, attributes):
        return writer.node("GlobalAveragePool", op.inputs, op.output)
    include = int(bool(op.attrs.count_include_pad))
    return writer.node("AveragePool", op.inputs, op.output, count_include_pad=include, **attributes)


def _is_global(op: Operation, attributes: Mapping[str, Any]) -> bool:
    """Say whether one window covers the image: the form that other tools compute in integers."""
    return (
        tuple(attributes["kernel_shape"]) == op.input_shape()[2:]
        and not any(attributes["pads"])
        and "dilations" not in attributes
    )


def _adaptive_average_pool(writer: NodeWriter, op: Operation) -> str:
    if set(op.shape[2:]) != {1}:
        raise NotImplementedError(f"it pools adaptively to {op.shape[2:]}, which ONNX lacks")
    return writer.node("GlobalAveragePool", op.inputs, op.output)


def _pad(writer: NodeWriter, op: Operation) -> str:
    widths = ints(op.attrs.pad_width)
    pads = writer.integers(f"{op.output}:pads", [*widths[::2], *widths[1::2]])
    value = op.attrs.pad_value if len(op.call.args) < 2 else dataflow.number(op.call.args[1])
    fill = writer.array(f"{op.output}:fill", np.array(value, dataflow.dtype(op.call)))
    mode = PAD_MODES[str(op.attrs.pad_mode)]
    return writer.node("Pad", [op.inputs[0], pads, fill], op.output, mode=mode)


def _slice(writer: NodeWriter, op: Operation) -> str:
    axes, begins, ends, *steps = (ints(arg.fields) for arg in op.call.args[1:])
    step = steps[0] if steps else [1] * len(axes)
    bounds = {"starts": begins, "ends": ends, "axes": axes, "steps": step}
    inputs = [writer.integers(f"{op.output}:{name}", values) for name, values in bounds.items()]
    return writer.node("Slice", [op.inputs[0], *inputs], op.output)


def _resize(writer: NodeWriter, op: Operation) -> str:
    attrs = op.attrs
    _require_channels_first(attrs.layout)
    image_only = {"axes": [2, 3]} if writer.open_batch else {}
    extents = op.shape[2:] if writer.open_batch else op.shape
    sizes = writer.integers(f"{op.output}:sizes", extents)
    attributes: dict[str, Any] = image_only | {
        "mode": RESIZE_MODES[str(attrs.method)],
        "coordinate_transformation_mode": str(attrs.coordinate_transformation_mode),
    }
    if attributes["mode"] == "nearest":
        attributes["nearest_mode"] = NEAREST_MODES[str(attrs.rounding_method) or "round"]
    if attributes["mode"] == "cubic":
        attributes["cubic_coeff_a"] = float(attrs.cubic_alpha)
        attributes["exclude_outside"] = int(attrs.cubic_exclude)
    return writer.node("Resize", [op.inputs[0], "", "", sizes], op.output, **attributes)


def _ranks(name: str) -> Sequence[str]:
    return [name.replace("*", str(rank)) for rank in (1, 2, 3)]


_BY_PATTERN: Mapping[str, Writer] = {
    "nn.conv*d": _conv,
    "nn.conv*d_transpose": _conv_transpose,
    "nn.max_pool*d": _max_pool,
    "nn.avg_pool*d": _average_pool,
    "nn.adaptive_avg_pool*d": _adaptive_average_pool,
}
WINDOWS: Mapping[str, Writer] = MappingProxyType(
    {name: write for pattern, write in _BY_PATTERN.items() for name in _ranks(pattern)}
    | {"image.resize2d": _resize, "nn.pad": _pad, "strided_slice": _slice}
)
