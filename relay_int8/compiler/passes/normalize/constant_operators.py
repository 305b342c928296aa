"""What operators make of constants, in NumPy and double precision.

Functions of numbers, reductions, comparisons and moves, and the few layers that exporters leave
behind constants: of encoded positions, masks of pixels, learned queries. Those that read indices
are in ``constant_indexing``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from tvm import relax

from relay_int8.compiler.passes.normalize.constant_indexing import INDEXING
from relay_int8.graph.dataflow import number, operator, pad_fill, shape
from relay_int8.graph.declined import Declined
from relay_int8.numerics.convolution import convolve, convolve_transposed
from relay_int8.numerics.interpolation import COORDINATES, axis_pairs
from relay_int8.numerics.unary import UNARY

Function = Callable[..., Any]

CALCULATIONS: dict[str, Function] = {
    **UNARY,
    "add": np.add,
    "cos": np.cos,
    "divide": np.divide,
    "matmul": np.matmul,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "nn.relu": lambda x: np.maximum(x, 0),
    "ones_like": np.ones_like,
    "power": np.power,
    "sin": np.sin,
    "subtract": np.subtract,
    "zeros_like": np.zeros_like,
}
REDUCTIONS: dict[str, Function] = {
    "max": np.max,
    "mean": np.mean,
    "min": np.min,
    "sum": np.sum,
    "variance": np.var,
}
COMPARISONS: dict[str, Function] = {
    "equal": np.equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "logical_and": np.logical_and,
    "logical_not": np.logical_not,
    "logical_or": np.logical_or,
    "not_equal": np.not_equal,
    "where": np.where,
}
"""Those of indices too: exporters write the masks of shifted windows by them."""
# The type of the result says all that is to know about the new shape.
RESHAPES = {"reshape", "expand_dims", "squeeze", "flatten"}
PadMode = Literal["constant", "edge", "reflect", "wrap"]
PAD_MODES: dict[str, PadMode] = {
    "circular": "wrap",
    "constant": "constant",
    "edge": "edge",
    "reflect": "reflect",
    "replicate": "edge",
}
"""Relax's names of what a pad writes -> NumPy's."""


def computed(value: relax.Call, operands: list[np.ndarray]) -> np.ndarray | Declined | None:
    """Return the result of a call on constants.

    Parameters
    ----------
    value
        The call; its type says the shape of the result, whose own type is the caller's business.
    operands
        The tensors that it reads, in double precision or as the graph holds them.

    Returns
    -------
    The result; why it is not computed; or None where that is as it shall be (weights of integers).
    """
    op = operator(value)
    if op in CALCULATIONS or op in REDUCTIONS:
        operands = [a.astype("float64") if a.dtype.kind == "f" else a for a in operands]
    if op == "dequantize":
        return _bias(value, operands)
    if op == "clip":
        low, high = (number(bound) for bound in value.args[1:])
        return np.asarray(np.clip(operands[0], low, high))
    if op in CALCULATIONS:
        return np.asarray(CALCULATIONS[op](*operands))
    if op in REDUCTIONS:
        axis = value.attrs.axis
        axes = None if axis is None else tuple(int(i) for i in axis)
        return np.asarray(REDUCTIONS[op](operands[0], axis=axes, keepdims=value.attrs.keepdims))
    if op in COMPARISONS:
        return np.asarray(COMPARISONS[op](*operands))
    if op in INDEXING:
        return INDEXING[op](value, operands)
    if op in RESHAPES:
        return operands[0].reshape(shape(value))
    if op == "broadcast_to":
        return np.broadcast_to(operands[0], shape(value))
    if op == "permute_dims":
        axes = value.attrs.axes
        return operands[0].transpose(None if axes is None else [int(i) for i in axes])
    if op == "nn.softmax":
        return _softmax(operands[0].astype("float64"), int(value.attrs.axis))
    if op == "image.resize2d":
        return _resized(value, operands)
    if op == "nn.layer_norm":
        return _layer_norm(value, operands)
    if op == "nn.conv2d":
        return _convolution(value, operands)
    if op == "nn.conv2d_transpose":
        return _transposed_convolution(value, operands)
    if op == "nn.pad":
        return _padded(value, operands[0])
    if op == "concat":
        return np.concatenate(operands, axis=int(value.attrs.axis or 0))
    if op == "astype":
        return operands[0] if operands[0].dtype.kind == "f" else None
    if op == "quantize":
        return _integer(value, operands)
    return Declined(f"it reads constants alone, and {op} is not computed")


def _padded(value: relax.Call, x: np.ndarray) -> np.ndarray | Declined:
    """Return a constant with a border, such as the mask of a window that was written over."""
    attrs, mode = value.attrs, PAD_MODES.get(str(value.attrs.pad_mode))
    if mode is None:
        return Declined(f"it pads a constant by {attrs.pad_mode}")
    widths = np.reshape([int(width) for width in attrs.pad_width], (-1, 2))
    if mode != "constant":
        return np.pad(x, widths, mode)
    return np.pad(x, widths, constant_values=pad_fill(value))


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """Return shares, as of the branches that a network weighs by learned numbers."""
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


def _layer_norm(value: relax.Call, operands: list[np.ndarray]) -> np.ndarray:
    """Return the norm of constant rows, as DeBERTa's embeddings of distances have it."""
    x, gamma, beta = (operand.astype("float64") for operand in operands)
    axes = tuple(int(axis) for axis in value.attrs.axes)
    variance = x.var(axes, keepdims=True) + float(value.attrs.epsilon)
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(variance)
    y = y * gamma if value.attrs.scale else y
    return np.asarray(y + beta if value.attrs.center else y)


def _convolution(value: relax.Call, operands: list[np.ndarray]) -> np.ndarray | Declined:
    """Return what weights make of a constant image, such as positions of pixels."""
    attrs = value.attrs
    if (attrs.data_layout, attrs.kernel_layout) != ("NCHW", "OIHW"):
        return Declined(f"its layouts are {attrs.data_layout} and {attrs.kernel_layout}")
    return convolve(
        *operands,
        strides=[int(stride) for stride in attrs.strides],
        padding=[int(width) for width in attrs.padding],
        dilation=[int(width) for width in attrs.dilation],
        groups=int(attrs.groups),
    )


def _transposed_convolution(value: relax.Call, operands: list[np.ndarray]) -> np.ndarray | Declined:
    """Return a constant image enlarged by weights, such as the counts of windows that overlap."""
    attrs = value.attrs
    if (attrs.data_layout, attrs.kernel_layout) != ("NCHW", "IOHW"):
        return Declined(f"its layouts are {attrs.data_layout} and {attrs.kernel_layout}")
    return convolve_transposed(
        *operands,
        strides=[int(stride) for stride in attrs.strides],
        padding=[int(width) for width in attrs.padding],
        output_padding=[int(width) for width in attrs.output_padding],
        dilation=[int(width) for width in attrs.dilation],
        groups=int(attrs.groups),
    )


def _resized(value: relax.Call, operands: list[np.ndarray]) -> np.ndarray | Declined:
    """Return a constant image of another size, as of encoded positions or a mask of pixels."""
    attrs, y = value.attrs, operands[0].astype("float64")
    method, coordinates = str(attrs.method), str(attrs.coordinate_transformation_mode)
    rounding = str(attrs.rounding_method)
    is_linear = method == "linear" and coordinates in COORDINATES
    is_nearest = (method, coordinates, rounding) == ("nearest_neighbor", "asymmetric", "floor")
    if attrs.layout != "NCHW" or not (is_linear or is_nearest):
        return Declined(f"it resizes a constant {attrs.layout} image by {method}, {coordinates}")
    for axis, out in ((2, shape(value)[2]), (3, shape(value)[3])):
        pairs = axis_pairs(y.shape[axis], out, coordinates)
        first, second, shares = (np.array(part) for part in zip(*pairs, strict=True))
        share = shares.astype("float64").reshape(-1, *(1,) * (3 - axis)) * is_linear
        y = y.take(first, axis) * (1 - share) + y.take(second, axis) * share
    return y


def _integer(value: relax.Call, operands: list[np.ndarray]) -> np.ndarray | None:
    """Return a scalar's integer; None of others: they are weights, whose pair says it."""
    x, s, z = operands
    if x.ndim:
        return None
    info = np.iinfo(str(value.attrs.out_dtype))
    q = np.rint(x.astype(np.float32) / s.astype(np.float32)).astype(np.float64) + z
    return np.asarray(np.clip(q, info.min, info.max), info.dtype)


def _bias(value: relax.Call, operands: list[np.ndarray]) -> np.ndarray | None:
    """Return an int32 constant or a scalar as real numbers; None of others: they are weights."""
    q, s, z = operands
    if q.dtype != np.int32 and q.ndim:
        return None
    axis = int(value.attrs.axis) % q.ndim if q.ndim else 0
    along = [-1 if i == axis else 1 for i in range(q.ndim)]
    s, z = (p.reshape(along) if p.size > 1 else p.reshape(()) for p in (s, z))
    return np.asarray((q.astype("float64") - z) * s)
