"""PyTorch operators of linear algebra: products of several matrices, norms, small inverses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.step import Converter, Result, TorchStep, axis_of
from relay_int8.frontend.torch.vector_norms import vector_norm
from relay_int8.graph.dataflow import dtype, shape


def _products(step: TorchStep) -> Result:
    """Multiply matrices in their order; the first and the last may be vectors."""
    first, *rest = step.tensors("tensors" if "tensors" in step.arguments else "matrices")
    for factor in rest:
        first = step.emit("product", relax.op.matmul(first, factor))
    return first


def _vector_products(step: TorchStep) -> Result:
    """Sum the products of two tensors along an axis."""
    product = step.emit("product", relax.op.multiply(step.tensor("x"), step.tensor("y")))
    return relax.op.sum(product, [axis_of(step.integer("dim", -1), len(shape(product)))])


def _norm(default: Callable[[int], list[int]]) -> Converter:
    """Return vector norms, or of matrices that of Frobenius, which is the norm of all elements."""

    def _convert(step: TorchStep) -> Result:
        order = step.arguments.get("ord")
        axes = [axis_of(axis, step.rank) for axis in step.integers("dim", default(step.rank))]
        if order not in (None, "fro") and (len(axes) != 1 or isinstance(order, str)):
            raise NotImplementedError(f"a norm of matrices of order {order}; 'fro' is read")
        of = step.real("ord") if order not in (None, "fro") else 2.0
        return vector_norm(step, step.x, of, axes, step.flag("keepdim", False))

    return _convert


def _grouped_products(step: TorchStep) -> Result:
    """Multiply each row by the matrix of its group; ``offs`` says behind which row groups end.

    Rows behind the last group, which torch leaves as they are, are multiplied by its matrix.
    """
    x = step.tensor("input" if "input" in step.arguments else "self")
    w = step.tensor("weight" if "weight" in step.arguments else "mat2")
    ends = step.tensor("offs")
    if len(shape(x)) != 2 or len(shape(w)) != 3 or step.arguments.get("bias") is not None:
        raise NotImplementedError(f"groups of {list(shape(x))} by {list(shape(w))}, or with a bias")
    rows = relax.const(np.arange(shape(x)[0])[:, None], dtype(ends))
    passed = step.emit("passed", relax.op.greater_equal(rows, ends))
    counted = step.emit("counted", relax.op.astype(passed, "int64"))
    group = step.emit("group", relax.op.sum(counted, [1]))
    matrices = step.emit("matrices", relax.op.take(w, group, 0, mode="clip"))
    row = step.emit("row", relax.op.expand_dims(x, 1))
    product = step.emit("product", relax.op.matmul(row, matrices))
    return relax.op.reshape(product, (shape(x)[0], shape(w)[2]))


def _inverse(step: TorchStep) -> Result:
    """Divide the adjugate of a matrix by its determinant; of up to 3 x 3 elements."""
    x = step.tensor("A" if "A" in step.arguments else "self")
    size = shape(x)[-1]
    if shape(x)[-2] != size or size > 3:
        raise NotImplementedError(f"the inverse of {list(shape(x))}; it is read up to 3 x 3")
    if size == 1:
        return relax.op.divide(relax.const(1.0, "float32"), x)
    rows = len(shape(x)) - 2
    cofactors = step.emit("cofactors", _cofactors(step, x, rows, size))
    first = (
        step.emit("first", relax.op.strided_slice(part, [rows], [0], [1]))
        for part in (cofactors, x)
    )
    # Not a product of matrices: a determinant in int8 would be off by too much.
    terms = step.emit("terms", relax.op.multiply(*first))
    determinant = step.emit("determinant", relax.op.sum(terms, [rows + 1], keepdims=True))
    divided = step.emit("divided", relax.op.divide(cofactors, determinant))
    return relax.op.permute_dims(divided, [*range(rows), rows + 1, rows])


def _cofactors(step: TorchStep, x: relax.Expr, rows: int, size: int) -> relax.Expr:
    """Return the signed minors of 2 x 2 elements, or of 3 x 3, whose rows are cross products."""

    def _turned(by_rows: int, by_columns: int) -> relax.Expr:
        part = x
        for axis, by in ((rows, by_rows), (rows + 1, by_columns)):
            order = relax.const(np.roll(np.arange(size), -by), "int64")
            part = step.emit("turned", relax.op.take(part, order, axis, mode="clip"))
        return part

    if size == 2:
        signs = relax.const(np.array([[1, -1], [-1, 1]], "float32"))
        return relax.op.multiply(_turned(1, 1), signs)
    left, right = (
        step.emit("product", relax.op.multiply(_turned(1, i), _turned(2, 3 - i))) for i in (1, 2)
    )
    return relax.op.subtract(left, right)


MATRICES: dict[str, Converter] = {
    "_grouped_mm": _grouped_products,
    "chain_matmul": _products,
    "inverse": _inverse,
    "linalg_inv": _inverse,
    "linalg_matrix_norm": _norm(lambda rank: [rank - 2, rank - 1]),
    "linalg_multi_dot": _products,
    "linalg_norm": _norm(lambda rank: list(range(rank))),
    "linalg_vecdot": _vector_products,
}
"""Operators of the namespace aten."""
GROUPED: dict[str, Converter] = {"transformers.grouped_mm_fallback": _grouped_products}
"""What HuggingFace's transformers multiply experts by on CPUs."""
