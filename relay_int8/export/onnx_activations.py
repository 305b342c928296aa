"""Activations as ONNX nodes of opset 19."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from relay_int8.export.onnx_nodes import NodeWriter, Operation, Writer, scalar
from relay_int8.graph import dataflow


def _clip(writer: NodeWriter, op: Operation) -> str:
    dtype = dataflow.dtype(op.call)
    bounds = [
        writer.array(f"{op.output}:{name}", np.array(dataflow.number(value), dtype))
        for name, value in zip(("min", "max"), op.call.args[1:], strict=True)
    ]
    return writer.node("Clip", [op.inputs[0], *bounds], op.output)


def _leaky_relu(writer: NodeWriter, op: Operation) -> str:
    return writer.node("LeakyRelu", op.inputs, op.output, alpha=float(op.attrs.alpha))


def _prelu(writer: NodeWriter, op: Operation) -> str:
    trailing = len(op.shape) - 1 - int(op.attrs.axis) % len(op.shape)
    shape = writer.integers(f"{op.output}:slope_shape", [-1] + [1] * trailing)
    slope = writer.node("Reshape", [op.inputs[1], shape], f"{op.output}/slope")
    return writer.node("PRelu", [op.inputs[0], slope], op.output)


def _silu(writer: NodeWriter, op: Operation) -> str:
    gate = writer.node("Sigmoid", op.inputs, f"{op.output}/gate")
    return writer.node("Mul", [*op.inputs, gate], op.output)


def _gelu(writer: NodeWriter, op: Operation) -> str:
    half = writer.node(
        "Mul", [*op.inputs, scalar(writer, op, "scale", math.sqrt(0.5))], f"{op.output}/scaled"
    )
    return _gated(writer, op, writer.node("Erf", [half], f"{op.output}/erf"))


def _gelu_tanh(writer: NodeWriter, op: Operation) -> str:
    (x,), y = op.inputs, op.output
    cube = writer.node("Mul", [writer.node("Mul", [x, x], f"{y}/square"), x], f"{y}/cube")
    bent = writer.node("Mul", [cube, scalar(writer, op, "bend", 0.044715)], f"{y}/bent")
    total = writer.node("Add", [x, bent], f"{y}/total")
    scale = scalar(writer, op, "scale", math.sqrt(2 / math.pi))
    scaled = writer.node("Mul", [total, scale], f"{y}/scaled")
    return _gated(writer, op, writer.node("Tanh", [scaled], f"{y}/tanh"))


def _gated(writer: NodeWriter, op: Operation, gate: str) -> str:
    """Write ``0.5 * x * (1 + gate)``."""
    one = writer.node("Add", [gate, scalar(writer, op, "one", 1.0)], f"{op.output}/one")
    half = writer.node("Mul", [op.inputs[0], scalar(writer, op, "half", 0.5)], f"{op.output}/half")
    return writer.node("Mul", [half, one], op.output)


ACTIVATIONS: Mapping[str, Writer] = MappingProxyType(
    {
        "clip": _clip,
        "nn.gelu": _gelu,
        "nn.gelu_tanh": _gelu_tanh,
        "nn.leakyrelu": _leaky_relu,
        "nn.prelu": _prelu,
        "nn.silu": _silu,
    }
)
