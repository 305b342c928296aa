"""Norms as ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from relay_int8.export.onnx_nodes import NodeWriter, Operation, Writer, ints, scalar


def _layer_norm(writer: NodeWriter, op: Operation) -> str:
    rank, axes = len(op.shape), [axis % len(op.shape) for axis in ints(op.attrs.axes)]
    if sorted(axes) != list(range(min(axes), rank)):
        raise NotImplementedError(f"it normalizes axes {axes}, which are not the last ones")
    epsilon = float(op.attrs.epsilon)
    return writer.node("LayerNormalization", op.inputs, op.output, axis=min(axes), epsilon=epsilon)


def _rms_norm(writer: NodeWriter, op: Operation) -> str:
    """Write what opset 23 has an operator for."""
    x, gamma = op.inputs
    rank, y = len(op.shape), op.output
    axes = writer.integers(f"{y}:axes", [axis % rank for axis in ints(op.attrs.axes)])
    squares = writer.node("Mul", [x, x], f"{y}/squares")
    mean = writer.node("ReduceMean", [squares, axes], f"{y}/mean", keepdims=1)
    epsilon = scalar(writer, op, "epsilon", float(op.attrs.epsilon))
    root = writer.node("Sqrt", [writer.node("Add", [mean, epsilon], f"{y}/sum")], f"{y}/root")
    return writer.node("Mul", [writer.node("Div", [x, root], f"{y}/unit"), gamma], y)


def _group_norm(writer: NodeWriter, op: Operation) -> str:
    """Write norms of instances whose channels are groups, then gamma and beta."""
    axes, y = sorted(axis % len(op.shape) for axis in ints(op.attrs.axes)), op.output
    if int(op.attrs.channel_axis) != 1 or axes != list(range(2, len(op.shape))):
        raise NotImplementedError(f"it normalizes axes {axes} of channel {op.attrs.channel_axis}")
    groups = int(op.attrs.num_groups)
    cut = [op.inputs[0], writer.integers(f"{y}:groups", [0, groups, -1])]
    neutral = [np.ones(groups, np.float32), np.zeros(groups, np.float32)]
    factors = [writer.array(f"{y}:neutral", array) for array in neutral]
    inner = [writer.node("Reshape", cut, f"{y}/groups"), *factors]
    epsilon = float(op.attrs.epsilon)
    norm = writer.node("InstanceNormalization", inner, f"{y}/norm", epsilon=epsilon)
    dims = writer.integers(f"{y}:shape", [0, *op.shape[1:]])
    value = writer.node("Reshape", [norm, dims], f"{y}/joined")
    channels = writer.integers(f"{y}:channels", [-1] + [1] * len(axes))
    for node, factor, name in zip(("Mul", "Add"), op.inputs[1:], (f"{y}/scaled", y), strict=True):
        along = writer.node("Reshape", [factor, channels], f"{name}/factor")
        value = writer.node(node, [value, along], name)
    return value


def _instance_norm(writer: NodeWriter, op: Operation) -> str:
    axes = sorted(axis % len(op.shape) for axis in ints(op.attrs.axes))
    if int(op.attrs.channel_axis) != 1 or axes != list(range(2, len(op.shape))):
        raise NotImplementedError(f"it normalizes axes {axes} of channel {op.attrs.channel_axis}")
    epsilon = float(op.attrs.epsilon)
    return writer.node("InstanceNormalization", op.inputs, op.output, epsilon=epsilon)


NORMS: Mapping[str, Writer] = MappingProxyType(
    {
        "nn.group_norm": _group_norm,
        "nn.instance_norm": _instance_norm,
        "nn.layer_norm": _layer_norm,
        "nn.rms_norm": _rms_norm,
    }
)
