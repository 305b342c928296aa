"""Multiplications of a network that are worth doing, and whether some are of two activations."""

from __future__ import annotations

from math import prod
from typing import Any

import onnx
from onnx import helper


def in_bounds_macs(model: onnx.ModelProto) -> int | None:
    """Return the multiplications of all layers and matrix products, taps in padding left out.

    None where ONNX does not infer the shapes of one.

    Parameters
    ----------
    model
        Network of batch 1.
    """
    graph = onnx.shape_inference.infer_shapes(model).graph
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for info in (*graph.input, *graph.value_info, *graph.output):
        shapes[info.name] = tuple(dim.dim_value for dim in info.type.tensor_type.shape.dim)
    total = 0
    for node in graph.node:
        if node.op_type not in ("Conv", "Gemm", "MatMul"):
            continue
        known = [shapes.get(name) for name in (*node.input[:2], node.output[0])]
        if not all(dims and prod(dims) for dims in known):  # of an unknown rank: no dimensions
            return None
        if node.op_type == "Conv":
            total += _convolution(node, shapes)
        else:
            columns = shapes[node.output[0]][-1]
            total += prod(shapes[node.input[0]]) * columns
    return total


def has_attention(model: onnx.ModelProto) -> bool:
    """Return whether a matrix product has two computed operands, as that of queries and keys."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return any(
        node.op_type == "MatMul" and not constants.intersection(node.input)
        for node in model.graph.node
    )


def _convolution(node: onnx.NodeProto, shapes: dict[str, tuple[int, ...]]) -> int:
    attributes: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    x, w, y = (shapes[name] for name in (node.input[0], node.input[1], node.output[0]))
    axes = len(x) - 2
    pads = attributes.get("pads", [0] * 2 * axes)
    strides = attributes.get("strides", [1] * axes)
    dilations = attributes.get("dilations", [1] * axes)
    counts = [
        taps(x[2 + i], w[2 + i], y[2 + i], strides[i], pads[i], dilations[i]) for i in range(axes)
    ]
    return int(prod(counts)) * w[0] * w[1]


def taps(size: int, kernel: int, out: int, stride: int, pad: int, dilation: int) -> int:
    """Return the taps of one axis that meet the image, over all output positions."""
    return sum(
        0 <= position * stride - pad + tap * dilation < size
        for position in range(out)
        for tap in range(kernel)
    )
