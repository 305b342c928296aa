"""PyTorch operators of linear algebra: small matrices, norms, products of several."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm import relax

from relay_int8.frontend.small_matrices import determinant, inverse, product, sign_and_log
from relay_int8.frontend.torch.step import Converter, Result, TorchStep, axis_of
from relay_int8.frontend.torch.vector_norms import vector_norm
from relay_int8.graph.dataflow import shape


def _matrix(step: TorchStep) -> relax.Expr:
    return step.tensor("A") if "A" in step.arguments else step.x


def _det(step: TorchStep) -> Result:
    return determinant(step.emit, _matrix(step))


def _inverse(step: TorchStep) -> Result:
    return inverse(step.emit, _matrix(step))


def _first_of(convert: Converter) -> Converter:
    """Return the first of several results; the others say how it was computed."""

    def _converted(step: TorchStep) -> Result:
        result = convert(step)
        assert isinstance(result, relax.Expr)
        return [result]

    return _converted


def _sign_and_log(step: TorchStep) -> Result:
    return list(sign_and_log(step.emit, _matrix(step)))


def _log_det(step: TorchStep) -> Result:
    """Return the logarithm of a determinant, NaN of a negative one."""
    sign, log = sign_and_log(step.emit, _matrix(step))
    return relax.op.add(log, step.emit("negative", relax.op.log(sign)))  # log(-1) is NaN


def _solve(step: TorchStep) -> Result:
    """Return what a matrix multiplies to give vectors, or the columns of matrices."""
    if not step.flag("left", True):
        raise NotImplementedError("matrices that stand on the right (left=False)")
    a, b = _matrix(step), step.tensor("B")
    is_vector = len(shape(b)) == 1 or shape(b) == shape(a)[:-1]
    if is_vector:
        b = step.emit("column", relax.op.expand_dims(b, -1))
    y = product(step.emit, step.emit("inverse", inverse(step.emit, a)), b)
    return relax.op.squeeze(step.emit("solved", y), [-1]) if is_vector else y


def _norm(step: TorchStep) -> Result:
    """Return norms of vectors, or of matrices where two axes are named or an order is theirs."""
    axes = [axis_of(axis, step.rank) for axis in step.integers("dim", [])]
    order, kept = step.arguments.get("ord"), step.flag("keepdim", False)
    if order is None:
        return vector_norm(step, step.x, 2.0, axes or list(range(step.rank)), kept)
    if len(axes) == 1 or (not axes and step.rank == 1):
        return vector_norm(step, step.x, step.real("ord"), axes or [0], kept)
    return _of_matrices(step, order, axes or list(range(step.rank)), kept)


def _matrix_norm(step: TorchStep) -> Result:
    axes = [axis_of(axis, step.rank) for axis in step.integers("dim", [-2, -1])]
    return _of_matrices(step, step.arguments.get("ord", "fro"), axes, step.flag("keepdim", False))


def _of_matrices(step: TorchStep, order: object, axes: Sequence[int], kept: bool) -> relax.Expr:
    """Return the root of all squares ("fro"), or the largest or least sum of a row or column."""
    if len(axes) != 2:
        raise ValueError(f"matrices along axes {list(axes)}")
    if order == "fro":
        return vector_norm(step, step.x, 2.0, list(axes), kept)
    if order not in (1, -1, math.inf, -math.inf):
        raise NotImplementedError(f"a norm of matrices of order {order}")
    assert isinstance(order, int | float)
    summed, compared = axes if abs(order) == 1 else axes[::-1]
    sizes = step.emit("sizes", relax.op.abs(step.x))
    sums = step.emit("sums", relax.op.sum(sizes, [summed], keepdims=True))
    extreme = (relax.op.max if order > 0 else relax.op.min)(sums, [compared], keepdims=True)
    return extreme if kept else relax.op.squeeze(step.emit("norm", extreme), list(axes))


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


MATRICES: dict[str, Converter] = {
    "_linalg_det": _first_of(_det),
    "_linalg_slogdet": _sign_and_log,
    "_linalg_solve_ex": _first_of(_solve),
    "chain_matmul": _products,
    "det": _det,
    "inverse": _inverse,
    "linalg_det": _det,
    "linalg_inv": _inverse,
    "linalg_inv_ex": _first_of(_inverse),
    "linalg_matrix_norm": _matrix_norm,
    "linalg_multi_dot": _products,
    "linalg_norm": _norm,
    "linalg_slogdet": _sign_and_log,
    "linalg_solve": _solve,
    "linalg_solve_ex": _first_of(_solve),
    "linalg_vecdot": _vector_products,
    "logdet": _log_det,
    "slogdet": _sign_and_log,
}
"""Operators of the namespace aten."""
