"""Relax operators as ONNX nodes of opset 19: one table, the inverse of the ONNX frontend."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from onnx import TensorProto, helper

from relay_int8.export.onnx_activations import ACTIVATIONS
from relay_int8.export.onnx_nodes import NodeWriter, Operation, Writer, ints
from relay_int8.export.onnx_norms import NORMS
from relay_int8.export.onnx_samples import write_samples
from relay_int8.export.onnx_windows import WINDOWS
from relay_int8.graph import dataflow

SAME: Mapping[str, str] = MappingProxyType(
    {
        "abs": "Abs",
        "acos": "Acos",
        "acosh": "Acosh",
        "add": "Add",
        "asin": "Asin",
        "asinh": "Asinh",
        "atan": "Atan",
        "atanh": "Atanh",
        "bitwise_and": "BitwiseAnd",
        "bitwise_not": "BitwiseNot",
        "bitwise_or": "BitwiseOr",
        "bitwise_xor": "BitwiseXor",
        "ceil": "Ceil",
        "cos": "Cos",
        "cosh": "Cosh",
        "divide": "Div",
        "equal": "Equal",
        "erf": "Erf",
        "exp": "Exp",
        "floor": "Floor",
        "greater": "Greater",
        "greater_equal": "GreaterOrEqual",
        "isinf": "IsInf",
        "isnan": "IsNaN",
        "less": "Less",
        "less_equal": "LessOrEqual",
        "log": "Log",
        "logical_and": "And",
        "logical_not": "Not",
        "logical_or": "Or",
        "logical_xor": "Xor",
        "matmul": "MatMul",
        "maximum": "Max",
        "minimum": "Min",
        "multiply": "Mul",
        "negative": "Neg",
        "nn.relu": "Relu",
        "nn.selu": "Selu",
        "nn.softplus": "Softplus",
        "power": "Pow",
        "round": "Round",
        "sigmoid": "Sigmoid",
        "sign": "Sign",
        "sin": "Sin",
        "sinh": "Sinh",
        "sqrt": "Sqrt",
        "subtract": "Sub",
        "tan": "Tan",
        "tanh": "Tanh",
    }
)
"""Operators without attributes."""

REDUCTIONS: Mapping[str, str] = MappingProxyType(
    {
        "max": "ReduceMax",
        "mean": "ReduceMean",
        "min": "ReduceMin",
        "prod": "ReduceProd",
        "sum": "ReduceSum",
    }
)


def converter(operator: str) -> Writer | None:
    """Return what writes a Relax operator (its name without ``relax.``), or None."""
    if operator in SAME:
        return lambda writer, op: writer.node(SAME[operator], op.inputs, op.output)
    if operator in REDUCTIONS:
        return lambda writer, op: _reduce(writer, op, REDUCTIONS[operator])
    return _TABLE.get(operator)


def _reduce(writer: NodeWriter, op: Operation, name: str) -> str:
    axis = op.attrs.axis
    axes = [] if axis is None else [writer.integers(f"{op.output}:axes", ints(axis))]
    return writer.node(name, [*op.inputs, *axes], op.output, keepdims=int(bool(op.attrs.keepdims)))


def _arg_reduce(name: str) -> Writer:
    def _write(writer: NodeWriter, op: Operation) -> str:
        x, axis = op.inputs[0], op.attrs.axis
        if axis is None:
            x = writer.node("Flatten", [x], f"{op.output}/flat", axis=0)
        keep = int(bool(op.attrs.keepdims))
        return writer.node(
            name, [x], op.output, axis=1 if axis is None else int(axis), keepdims=keep
        )

    return _write


def _reshape(writer: NodeWriter, op: Operation) -> str:
    return writer.node("Reshape", [op.inputs[0], _extents(writer, op, 0)], op.output)


def _broadcast(writer: NodeWriter, op: Operation) -> str:
    return writer.node("Expand", [op.inputs[0], _extents(writer, op, 1)], op.output)


def _extents(writer: NodeWriter, op: Operation, kept: int) -> str:
    """Write the extents of the result; ``kept`` stands for a batch that is open."""
    extents = list(op.shape)
    if writer.open_batch:
        extents[0] = _kept_batch(op, kept)
    return writer.integers(f"{op.output}:shape", extents)


def _kept_batch(op: Operation, kept: int) -> int:
    """Return the extent that stands for the input's own, where the batch stays in front."""
    before = op.input_shape()
    if not before or not op.shape or before[0] != op.shape[0]:
        raise NotImplementedError(
            f"it makes {op.shape} of {before}, which moves the batch: leave it fixed"
        )
    return kept


def _transpose(writer: NodeWriter, op: Operation) -> str:
    axes = op.attrs.axes
    order = list(range(len(op.shape)))[::-1] if axes is None else ints(axes)
    return writer.node("Transpose", op.inputs, op.output, perm=order)


def _concat(writer: NodeWriter, op: Operation) -> str:
    return writer.node("Concat", op.inputs, op.output, axis=int(op.attrs.axis or 0))


def _tile(writer: NodeWriter, op: Operation) -> str:
    repeats = ints(op.attrs.repeats)
    rank = len(op.input_shape())
    counts = writer.integers(f"{op.output}:repeats", [1] * (rank - len(repeats)) + repeats)
    return writer.node("Tile", [op.inputs[0], counts], op.output)


def _cast(writer: NodeWriter, op: Operation) -> str:
    to = helper.np_dtype_to_tensor_dtype(np.dtype(dataflow.dtype(op.call)))
    return writer.node("Cast", op.inputs[:1], op.output, to=to)


def _softmax(name: str) -> Writer:
    return lambda writer, op: writer.node(name, op.inputs, op.output, axis=int(op.attrs.axis))


def _rsqrt(writer: NodeWriter, op: Operation) -> str:
    return writer.node(
        "Reciprocal", [writer.node("Sqrt", op.inputs, f"{op.output}/sqrt")], op.output
    )


def _square(writer: NodeWriter, op: Operation) -> str:
    return writer.node("Mul", op.inputs * 2, op.output)


def _not_equal(writer: NodeWriter, op: Operation) -> str:
    return writer.node("Not", [writer.node("Equal", op.inputs, f"{op.output}/equal")], op.output)


def _floor_divide(writer: NodeWriter, op: Operation) -> str:
    return writer.node("Floor", [writer.node("Div", op.inputs, f"{op.output}/ratio")], op.output)


def _take(writer: NodeWriter, op: Operation) -> str:
    x, axis = op.inputs[0], op.attrs.axis
    if axis is None:
        x = writer.node(
            "Reshape", [x, writer.integers(f"{op.output}:flat", [-1])], f"{op.output}/flat"
        )
    return writer.node("Gather", [x, op.inputs[1]], op.output, axis=int(axis or 0))


def _gather_elements(writer: NodeWriter, op: Operation) -> str:
    return writer.node("GatherElements", op.inputs, op.output, axis=int(op.attrs.axis))


def _gather_nd(writer: NodeWriter, op: Operation) -> str:
    batch_dims = int(op.attrs.batch_dims)
    return writer.node("GatherND", op.inputs, op.output, batch_dims=batch_dims)


def _cumsum(writer: NodeWriter, op: Operation) -> str:
    if op.attrs.axis is None:
        raise NotImplementedError("it sums over a flattened tensor")
    axis = writer.array(f"{op.output}:axis", np.array(int(op.attrs.axis), np.int64))
    exclusive = int(bool(op.attrs.exclusive))
    return writer.node("CumSum", [op.inputs[0], axis], op.output, exclusive=exclusive)


def _topk(writer: NodeWriter, op: Operation) -> str:
    if op.attrs.ret_type != "both":
        raise NotImplementedError(f"it gives {op.attrs.ret_type} alone")
    k = writer.integers(f"{op.output}:k", [int(op.attrs.k)])
    axis, largest = int(op.attrs.axis), int(bool(op.attrs.largest))
    return writer.node("TopK", [op.inputs[0], k], *op.outputs, axis=axis, largest=largest)


def _where(writer: NodeWriter, op: Operation) -> str:
    """Write a choice; of booleans as bytes, as ONNX Runtime chooses between no booleans."""
    if dataflow.dtype(op.call) != "bool":
        return writer.node("Where", op.inputs, op.output)
    mask, *values = op.inputs
    sides = [
        writer.node("Cast", [value], f"{op.output}/{side}", to=TensorProto.UINT8)
        for side, value in zip(("true", "false"), values, strict=True)
    ]
    chosen = writer.node("Where", [mask, *sides], f"{op.output}/chosen")
    return writer.node("Cast", [chosen], op.output, to=TensorProto.BOOL)


_TABLE: Mapping[str, Writer] = MappingProxyType(
    {
        **WINDOWS,
        **ACTIVATIONS,
        **NORMS,
        "argmax": _arg_reduce("ArgMax"),
        "argmin": _arg_reduce("ArgMin"),
        "astype": _cast,
        "broadcast_to": _broadcast,
        "call_dps_packed": write_samples,
        "concat": _concat,
        "cumsum": _cumsum,
        "expand_dims": _reshape,
        "flatten": _reshape,
        "floor_divide": _floor_divide,
        "gather_elements": _gather_elements,
        "gather_nd": _gather_nd,
        "nn.log_softmax": _softmax("LogSoftmax"),
        "nn.softmax": _softmax("Softmax"),
        "not_equal": _not_equal,
        "permute_dims": _transpose,
        "reshape": _reshape,
        "rsqrt": _rsqrt,
        "square": _square,
        "squeeze": _reshape,
        "take": _take,
        "tile": _tile,
        "topk": _topk,
        "where": _where,
    }
)
