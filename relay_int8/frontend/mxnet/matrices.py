"""MXNet's operators of linear algebra; determinants and inverses are of up to four rows."""

from __future__ import annotations

from tvm import relax

from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.frontend.small_matrices import determinant, inverse
from relay_int8.graph.dataflow import shape


def _product(step: MxnetStep) -> relax.Expr:
    """``alpha * A B``, each transposed first if its attribute says so."""
    a, b = step.operands("A", "B")
    return _scaled(step, _multiplied(step, a, b), "alpha")


def _product_and_sum(step: MxnetStep) -> relax.Expr:
    """``alpha * A B + beta * C``."""
    a, b, c = step.operands("A", "B", "C")
    product = step.emit("product", _scaled(step, _multiplied(step, a, b), "alpha"))
    factor = step.attributes.real("beta", 1.0)
    if factor != 1.0:
        c = step.emit("scaled", relax.op.multiply(c, step.number(factor)))
    return relax.op.add(product, c)


def _multiplied(step: MxnetStep, a: relax.Expr, b: relax.Expr) -> relax.Expr:
    if step.attributes.integer("axis", -2) != -2:
        raise NotImplementedError("matrices along other axes than the last two")
    flags = (step.attributes.flag(f"transpose_{name}", False) for name in "ab")
    return relax.op.matmul(
        *(_turned(step, x) if flag else x for x, flag in zip((a, b), flags, strict=True))
    )


def _by_itself(step: MxnetStep) -> relax.Expr:
    """``alpha * A A'``, or ``alpha * A' A``."""
    x = step.x
    pair = (x, _turned(step, x))
    if step.attributes.flag("transpose", False):
        pair = (pair[1], x)
    return _scaled(step, relax.op.matmul(*pair), "alpha")


def _turned(step: MxnetStep, x: relax.Expr) -> relax.Expr:
    rank = len(shape(x))
    order = [*range(rank - 2), rank - 1, rank - 2]
    return step.emit("turned", relax.op.permute_dims(x, order))


def _scaled(step: MxnetStep, y: relax.Expr, name: str) -> relax.Expr:
    factor = step.attributes.real(name, 1.0)
    if factor == 1.0:
        return y
    return relax.op.multiply(step.emit("matmul", y), step.number(factor))


MATRICES: dict[str, Converter] = {
    "_linalg_det": lambda step: determinant(step.emit, step.x),
    "_linalg_gemm": _product_and_sum,
    "_linalg_gemm2": _product,
    "_linalg_inverse": lambda step: inverse(step.emit, step.x),
    "_linalg_syrk": _by_itself,
}
MATRICES |= {name.removeprefix("_"): convert for name, convert in MATRICES.items()}
