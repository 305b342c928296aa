"""PyTorch operators with weights, and products."""

from __future__ import annotations

import math

from tvm import relax

from relay_int8.frontend.einsum import einsum
from relay_int8.frontend.torch.step import Converter, Result, TorchStep, axis_of
from relay_int8.frontend.torch.vector_norms import vector_norm
from relay_int8.graph.dataflow import dtype, shape

FACTORS = ("other", "mat2", "vec", "tensor")
"""What the second operand of a product is called, by matmul and vdot, mm, mv and dot."""


def _convolution(step: TorchStep) -> Result:
    """Convolve in one to three dimensions; ``padding`` may be the text "same" or "valid"."""
    x, w = step.x, step.tensor("weight")
    rank = len(shape(w)) - 2
    if not 1 <= rank <= 3 or len(shape(x)) != rank + 2:
        raise ValueError(f"its weight {shape(w)} does not fit an input {shape(x)}")
    if step.arguments.get("transposed"):
        return _transposed_convolution(step)
    strides = step.sizes("stride", rank, 1)
    dilation = step.sizes("dilation", rank, 1)
    y = (relax.op.nn.conv1d, relax.op.nn.conv2d, relax.op.nn.conv3d)[rank - 1](
        x,
        w,
        strides=strides,
        padding=_padding(step, shape(w)[2:], dilation),
        dilation=dilation,
        groups=step.integer("groups", 1),
    )
    return _with_bias(step, y, shape(w)[0])


def _padding(step: TorchStep, kernel: tuple[int, ...], dilation: list[int]) -> list[int]:
    """Return widths before each axis, then after each."""
    if not isinstance(step.arguments.get("padding"), str):
        return step.sizes("padding", len(kernel), 0, least=0) * 2
    mode = step.text("padding", "valid")
    if mode not in ("same", "valid"):
        raise ValueError(f"its padding is {mode!r}, not 'same' or 'valid'")
    total = [d * (k - 1) * (mode == "same") for k, d in zip(kernel, dilation, strict=True)]
    return [width // 2 for width in total] + [width - width // 2 for width in total]


def _transposed_convolution(step: TorchStep) -> Result:
    """Convolve transposed, in one to three dimensions."""
    x, w = step.x, step.tensor("weight")
    rank, groups = len(shape(w)) - 2, step.integer("groups", 1)
    if not 1 <= rank <= 3 or len(shape(x)) != rank + 2:
        raise NotImplementedError(f"a transposed convolution of {shape(x)} by {shape(w)}")
    op = (relax.op.nn.conv1d_transpose, relax.op.nn.conv2d_transpose, relax.op.nn.conv3d_transpose)
    y = op[rank - 1](
        x,
        w,
        strides=step.sizes("stride", rank, 1),
        padding=step.sizes("padding", rank, 0, least=0) * 2,
        output_padding=step.sizes("output_padding", rank, 0, least=0),
        dilation=step.sizes("dilation", rank, 1),
        groups=groups,
    )
    return _with_bias(step, y, shape(w)[1] * groups)


def _with_bias(step: TorchStep, y: relax.Expr, channels: int) -> relax.Expr:
    bias = step.optional_tensor("bias")
    if bias is None:
        return y
    if shape(bias) != (channels,):
        raise ValueError(f"its bias is {shape(bias)}, not {channels}")
    var = step.emit("conv", y)
    ones = (1,) * (len(shape(var)) - 2)
    return relax.op.add(var, step.emit("bias", relax.op.reshape(bias, (1, channels, *ones))))


def _linear(step: TorchStep) -> Result:
    """Multiply by the transposed weights, or by a vector of them."""
    w, bias = step.tensor("weight"), step.optional_tensor("bias")
    if len(shape(w)) not in (1, 2):
        raise NotImplementedError(f"a linear layer with weight {shape(w)}")
    if len(shape(w)) == 2:
        w = step.emit("weight", relax.op.permute_dims(w, [1, 0]))
    y = relax.op.matmul(step.x, w)
    return y if bias is None else relax.op.add(step.emit("matmul", y), bias)


def _addmm(step: TorchStep) -> Result:
    """``beta * self + alpha * mat1 @ mat2``; torch writes a linear layer so."""
    return _added(step, relax.op.matmul(step.tensor("mat1"), step.tensor("mat2")))


def _add_outer(step: TorchStep) -> Result:
    """``beta * self + alpha * outer(vec1, vec2)``."""
    column = step.emit("column", relax.op.expand_dims(step.tensor("vec1"), 1))
    return _added(step, relax.op.multiply(column, step.tensor("vec2")))


def _matmul(step: TorchStep) -> Result:
    other = next((name for name in FACTORS if name in step.arguments), FACTORS[0])
    return relax.op.matmul(step.x, step.tensor(other))


def _baddbmm(step: TorchStep) -> Result:
    """``beta * self + alpha * batch1 @ batch2``."""
    return _added(step, relax.op.matmul(step.tensor("batch1"), step.tensor("batch2")))


def _add_vector(step: TorchStep) -> Result:
    """``beta * self + alpha * mat @ vec``."""
    return _added(step, relax.op.matmul(step.tensor("mat"), step.tensor("vec")))


def _add_total(step: TorchStep) -> Result:
    """``beta * self + alpha * (batch1 @ batch2)``, summed over the batch."""
    product = relax.op.matmul(step.tensor("batch1"), step.tensor("batch2"))
    return _added(step, relax.op.sum(step.emit("products", product), [0]))


def _added(step: TorchStep, product: relax.Expr) -> Result:
    """``beta * self + alpha * product``; a beta of zero leaves out even NaN."""
    y = step.emit("matmul", product)
    alpha, beta = step.real("alpha", 1.0), step.real("beta", 1.0)
    if alpha != 1.0:
        y = step.emit("alpha", relax.op.multiply(y, step.number(alpha)))
    if beta == 0.0:
        return y
    x = step.x
    if beta != 1.0:
        x = step.emit("beta", relax.op.multiply(x, step.number(beta)))
    return relax.op.add(y, x)


def _inner(step: TorchStep) -> Result:
    """Sum the products along the last axes of two tensors, of which every other pair is kept."""
    return _contracted(step, [step.rank - 1], [len(shape(step.tensor("other"))) - 1])


def _tensordot(step: TorchStep) -> Result:
    """Sum the products of two tensors along given axes."""
    return _contracted(step, step.integers("dims_self"), step.integers("dims_other"))


def _contracted(step: TorchStep, axes: list[int], other_axes: list[int]) -> Result:
    """Multiply two tensors as matrices, the summed axes last in the one and first in the other."""
    a, b = step.x, step.tensor("other")
    of_a = [axis_of(axis, len(shape(a))) for axis in axes]
    of_b = [axis_of(axis, len(shape(b))) for axis in other_axes]
    kept_a = [axis for axis in range(len(shape(a))) if axis not in of_a]
    kept_b = [axis for axis in range(len(shape(b))) if axis not in of_b]
    depth = math.prod(shape(a)[axis] for axis in of_a)
    rows = step.emit("rows", relax.op.permute_dims(a, [*kept_a, *of_a]))
    columns = step.emit("columns", relax.op.permute_dims(b, [*of_b, *kept_b]))
    dims = [shape(a)[axis] for axis in kept_a] + [shape(b)[axis] for axis in kept_b]
    left = step.emit("left", relax.op.reshape(rows, (-1, depth)))
    right = step.emit("right", relax.op.reshape(columns, (depth, -1)))
    return relax.op.reshape(step.emit("product", relax.op.matmul(left, right)), dims)


def _einsum(step: TorchStep) -> Result:
    return einsum(step.tensors(), step.text("equation", ""), step.emit)


def _cdist(step: TorchStep) -> Result:
    """Return the distance of each row of one tensor to each of another's.

    The Euclidean one is the root of ``|a|^2 + |b|^2 - 2 a b'``, as PyTorch computes it of more than
    25 rows.
    """
    a, b = step.tensor("x1"), step.tensor("x2")
    rank = len(shape(b))
    if step.real("p", 2.0) != 2.0:
        rows = step.emit("rows", relax.op.expand_dims(a, -2))
        others = step.emit("others", relax.op.expand_dims(b, -3))
        apart = step.emit("apart", relax.op.subtract(rows, others))
        return vector_norm(step, apart, step.real("p"), [len(shape(apart)) - 1], False)
    lengths = [
        step.emit("squares", relax.op.sum(step.emit("square", relax.op.multiply(x, x)), [-1], True))
        for x in (a, b)
    ]
    turned = [*range(rank - 2), rank - 1, rank - 2]
    columns, others = (
        step.emit("turned", relax.op.permute_dims(x, turned)) for x in (b, lengths[1])
    )
    product = step.emit("product", relax.op.matmul(a, columns))
    twice = step.emit("twice", relax.op.multiply(product, relax.const(2.0, dtype(a))))
    total = step.emit("total", relax.op.add(lengths[0], others))
    square = step.emit("distance", relax.op.subtract(total, twice))
    return relax.op.sqrt(step.emit("bound", relax.op.maximum(square, relax.const(0.0, dtype(a)))))


def _glu(step: TorchStep) -> Result:
    """Return one half of the channels times the logistic function of the other."""
    axis = step.axis("dim", -1)
    size = shape(step.x)[axis]
    if size % 2:
        raise ValueError(f"it halves {size} channels")
    values, gate = (
        step.emit(name, relax.op.strided_slice(step.x, [axis], [begin], [begin + size // 2]))
        for name, begin in (("values", 0), ("gate", size // 2))
    )
    return relax.op.multiply(values, step.emit("sigmoid", relax.op.sigmoid(gate)))


LAYERS: dict[str, Converter] = {
    "addbmm": _add_total,
    "addmm": _addmm,
    "addmv": _add_vector,
    "addr": _add_outer,
    "baddbmm": _baddbmm,
    "bmm": _matmul,
    "cdist": _cdist,
    "conv1d": _convolution,
    "conv2d": _convolution,
    "conv3d": _convolution,
    "conv_transpose1d": _transposed_convolution,
    "conv_transpose2d": _transposed_convolution,
    "conv_transpose3d": _transposed_convolution,
    "convolution": _convolution,
    "dot": _matmul,
    "einsum": _einsum,
    "glu": _glu,
    "inner": _inner,
    "linear": _linear,
    "matmul": _matmul,
    "mm": _matmul,
    "mv": _matmul,
    "tensordot": _tensordot,
    "vdot": _matmul,
}
