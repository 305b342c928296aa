"""Operators that only ONNX's first versions had, which converters of Core ML and Caffe2 wrote.

ONNX Runtime still runs them; models of Windows ML's samples (style transfer) have them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper
from tvm import relax

from relay_int8.frontend.onnx.operators.converter import Converter
from relay_int8.graph.dataflow import dtype, shape

Attributes = dict[str, Any]
DOMAIN = "relay_int8.experimental"


def _affine(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """``alpha * x + beta``."""
    y = _scaled(bb, inputs[0], attributes.get("alpha", 1.0))
    return relax.op.add(y, relax.const(float(attributes.get("beta", 0.0)), dtype(inputs[0])))


def _aligned(_: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Append axes to the first operand, so that its first one is ``axis`` of the second."""
    operand, x = inputs
    dims, rank = shape(operand), len(shape(x))
    axis = int(attributes["axis"])
    after = rank - axis % rank - len(dims) if -rank <= axis < rank else -1
    if after < 0:
        raise ValueError(f"axis {axis} of {list(shape(x))} for {list(dims)}")
    return relax.op.reshape(operand, (*dims, *(1,) * after))


def _crop(_: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Leave out a border (left, top, right, bottom); ``scale`` is the height and width it keeps."""
    height, width = shape(inputs[0])[2:]
    left, top, right, bottom = attributes["border"]
    ends = [height - bottom, width - right]
    if "scale" in attributes:
        ends = [begin + size for begin, size in zip((top, left), attributes["scale"], strict=True)]
    if not (0 <= top < ends[0] <= height and 0 <= left < ends[1] <= width):
        raise ValueError(f"it crops {height} x {width} pixels to {top}:{ends[0]}, {left}:{ends[1]}")
    return relax.op.strided_slice(inputs[0], [2, 3], [top, left], ends)


def _image_scaler(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """``scale * x + bias``, with a bias for each channel of an image."""
    bias = np.array(attributes["bias"], dtype(inputs[0])).reshape(-1, 1, 1)
    return relax.op.add(_scaled(bb, inputs[0], attributes.get("scale", 1.0)), relax.const(bias))


def _scale(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """``scale * x``."""
    return _scaled(bb, inputs[0], attributes.get("scale", 1.0))


def _scaled_tanh(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """``alpha * tanh(beta * x)``."""
    inner = _scaled(bb, inputs[0], attributes["beta"])
    return _scaled(bb, bb.emit(relax.op.tanh(inner)), attributes["alpha"])


def _parametric_softplus(
    bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes
) -> relax.Expr:
    """``alpha * softplus(beta * x)``."""
    inner = _scaled(bb, inputs[0], attributes["beta"])
    return _scaled(bb, bb.emit(relax.op.nn.softplus(inner)), attributes["alpha"])


def _scaled(bb: relax.BlockBuilder, x: relax.Expr, factor: float) -> relax.Expr:
    return bb.emit(relax.op.multiply(x, relax.const(float(factor), dtype(x))))


EXPERIMENTAL: dict[str, Converter] = {
    "Affine": _affine,
    "Aligned": _aligned,
    "Crop": _crop,
    "ImageScaler": _image_scaler,
    "ParametricSoftplus": _parametric_softplus,
    "Scale": _scale,
    "ScaledTanh": _scaled_tanh,
}


def set_apart(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with these operators in a domain of their own; itself where there are none.

    ONNX's converter between opsets refuses operators of the standard that it does not know.
    """
    if not any(_is_experimental(node) for node in model.graph.node):
        return model
    apart = onnx.ModelProto()
    apart.CopyFrom(model)
    for node in filter(_is_experimental, apart.graph.node):
        node.domain = DOMAIN
    apart.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return apart


def _is_experimental(node: onnx.NodeProto) -> bool:
    return node.domain in ("", "ai.onnx") and node.op_type in EXPERIMENTAL
