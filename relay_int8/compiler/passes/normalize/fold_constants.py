"""Replace operators whose operands are all constants by their results.

    Before:  b = reshape(bias, (1, 8, 1, 1));  y = add(x, b)
    After:   y = add(x, constant)

Place:  first, so that the other passes find weights where they look for them.
Exact:  float64 NumPy along a whole chain of constants, rounded to the result's type once. The
        int32 biases of a quantized model become the reals they stand for; its weights stay as
        they are, quantize and dequantize included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import constant, operator, shape, slice_steps
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main
from relay_int8.numerics.convolution import convolve
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


@tvm.transform.module_pass(opt_level=0, name="FoldConstants")
class FoldConstants:
    """Replace operators of constants by their results."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with constant expressions computed; ``mod`` itself is left alone."""
        wide: dict[relax.Expr, np.ndarray] = {}

        def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
            result: np.ndarray | Declined | None
            if operator(value) == "shape_to_tensor":
                result = _shape_of(scope.value(value.args[0]))
            elif isinstance(value, relax.TupleGetItem):
                result = _item(scope.value(value.tuple_value), value.index, wide)
            else:
                result = _compute(value, wide)
            if not isinstance(result, np.ndarray):
                return result
            dtype = str(value.ty.dtype)
            folded = relax.const(np.asarray(result, dtype, order="C"), dtype)
            if result.dtype != dtype:
                wide[folded] = result
            return folded

        return rewrite_main(mod.clone(), _rewrite)


def _compute(value: relax.Expr, wide: dict[relax.Expr, np.ndarray]) -> np.ndarray | Declined | None:
    """Return the value of a call on constants in double precision; None of any other."""
    if not isinstance(value, relax.Call) or not isinstance(value.ty, relax.TensorType):
        return None
    op = operator(value)
    operands = _operands(value, wide)
    if operands is None:
        return None
    if op in CALCULATIONS or op in REDUCTIONS:
        operands = [a.astype("float64") if a.dtype.kind == "f" else a for a in operands]
    if op == "dequantize":
        return _bias(value, operands)
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
    if op == "nn.layer_norm":
        return _layer_norm(value, operands)
    if op == "nn.conv2d":
        return _convolution(value, operands)
    if op == "concat":
        return np.concatenate(operands, axis=int(value.attrs.axis or 0))
    if op == "astype":
        return operands[0] if operands[0].dtype.kind == "f" else None
    if op == "quantize":
        return None  # weights: their integers are those of the pair
    return Declined(f"it reads constants alone, and {op} is not computed")


def _item(value: relax.Expr, index: int, wide: dict[relax.Expr, np.ndarray]) -> np.ndarray | None:
    """Return a result of several: of a batch norm of constants, as standardized weights have."""
    if operator(value) != "nn.batch_norm" or index != 0:
        return None
    operands = _operands(value, wide)
    if operands is None:
        return None
    x = operands[0].astype("float64")
    along = [-1 if axis == int(value.attrs.axis) % x.ndim else 1 for axis in range(x.ndim)]
    gamma, beta, mean, variance = (a.astype("float64").reshape(along) for a in operands[1:])
    y = (x - mean) / np.sqrt(variance + float(value.attrs.epsilon))
    y = y * gamma if value.attrs.scale else y
    return np.asarray(y + beta if value.attrs.center else y)


def _shape_of(value: relax.Expr) -> np.ndarray | None:
    """Return the shape of a constant, or None: that of a tensor follows the batch."""
    is_constant = operator(value) == "shape_of" and constant(value.args[0]) is not None
    return np.array(shape(value.args[0]), "int64") if is_constant else None


def _slice(value: relax.Call, operands: list[np.ndarray]) -> np.ndarray:
    """Return part of a constant, of the extents that the type of the result says."""
    y = operands[0]
    begins, steps = slice_steps(value)
    for axis, count in enumerate(shape(value)):
        first = min(begins[axis], y.shape[axis] - 1) if steps[axis] < 0 else begins[axis]
        y = y.take(first + steps[axis] * np.arange(count), axis)
    return y


def _take(value: relax.Call, operands: list[np.ndarray]) -> np.ndarray | Declined:
    x, indices = operands
    axis = None if value.attrs.axis is None else int(value.attrs.axis)
    size = x.size if axis is None else x.shape[axis]
    inside = ((indices >= 0) & (indices < size)).all()
    return np.take(x, indices, axis=axis) if inside else Declined(f"an index is not below {size}")


def _gather_nd(value: relax.Call, operands: list[np.ndarray]) -> np.ndarray | Declined:
    x, indices = operands
    if int(value.attrs.batch_dims):
        return Declined(f"it gathers along {value.attrs.batch_dims} axes of batches, not 0")
    sizes = np.array(x.shape[: indices.shape[-1]])
    if not ((indices >= -sizes) & (indices < sizes)).all():
        return Declined(f"an index is not inside {x.shape}")
    return np.asarray(x[tuple(np.moveaxis(indices, -1, 0))])


def _gather_elements(value: relax.Call, operands: list[np.ndarray]) -> np.ndarray | Declined:
    x, indices = operands
    axis = int(value.attrs.axis) % x.ndim
    size = x.shape[axis]
    if not ((indices >= -size) & (indices < size)).all():
        return Declined(f"an index is not below {size}")
    # Other axes may be shorter than those of x; NumPy would repeat an extent of one.
    read = tuple(slice(size if i == axis else n) for i, n in enumerate(indices.shape))
    return np.take_along_axis(x[read], indices, axis)


def _tile(value: relax.Call, operands: list[np.ndarray]) -> np.ndarray:
    return np.tile(operands[0], [int(count) for count in value.attrs.repeats])


def _scatter_nd(value: relax.Call, operands: list[np.ndarray]) -> np.ndarray | Declined:
    x, indices, updates = operands
    sizes = np.array(x.shape[: indices.shape[-1]])
    inside = ((indices >= -sizes) & (indices < sizes)).all()
    if str(value.attrs.reduction) != "update":
        return Declined(f"it scatters by {value.attrs.reduction}, not by update")
    if not inside:
        return Declined(f"an index is not inside {x.shape}")
    y = x.copy()
    y[tuple(np.moveaxis(indices, -1, 0))] = updates
    return y


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


def _bias(value: relax.Call, operands: list[np.ndarray]) -> np.ndarray | None:
    """Return an int32 constant as real numbers, or None where the integers are narrower."""
    q, s, z = operands
    if q.dtype != np.int32:
        return None
    axis = int(value.attrs.axis) % q.ndim if q.ndim else 0
    along = [-1 if i == axis else 1 for i in range(q.ndim)]
    s, z = (p.reshape(along) if p.size > 1 else p.reshape(()) for p in (s, z))
    return np.asarray((q.astype("float64") - z) * s)


def _operands(value: relax.Call, wide: dict[relax.Expr, np.ndarray]) -> list[np.ndarray] | None:
    """Return the constants that a call reads, or None if it reads a tensor."""
    tensors: list[relax.Expr] = []
    # Bounds of a slice are tuples of numbers, and no tensors.
    arguments = value.args[:1] if operator(value) == "strided_slice" else value.args
    for argument in arguments:
        fields: Sequence[Any] = argument.fields if isinstance(argument, relax.Tuple) else [argument]
        tensors.extend(field for field in fields if not isinstance(field, relax.ShapeExpr))
    if not tensors or not all(isinstance(tensor, tvm.ir.GenericConst) for tensor in tensors):
        return None
    return [wide[t] if t in wide else t.value.numpy() for t in tensors]


INDEXING: dict[str, Callable[[relax.Call, list[np.ndarray]], np.ndarray | Declined]] = {
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "scatter_nd": _scatter_nd,
    "strided_slice": _slice,
    "take": _take,
    "tile": _tile,
}
