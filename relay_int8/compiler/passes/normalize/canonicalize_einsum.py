"""Write an einsum of two operands that is a product of matrices as one.

    Before:  y = einsum(a, b, "bhid,bhjd->bhij")
    After:   y = matmul(a, permute_dims(b, [0, 1, 3, 2]))

Labels of both operands and the result are batches, those of both alone are summed, those of one and
the result are its rows or columns. Several rows, columns or sums are joined by a reshape.

Place:  before CanonicalizeReshape.
Exact:  to the order of a float sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import operator, shape
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main


@tvm.transform.module_pass(opt_level=0, name="CanonicalizeEinsum")
class CanonicalizeEinsum:
    """Write an einsum of two operands that is a product of matrices as one."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with such einsums as products; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _as_matmul)


def _as_matmul(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
    if operator(value) != "einsum":
        return None
    operands = list(value.args[0].fields)
    left, arrow, result = str(value.attrs.subscripts).replace(" ", "").partition("->")
    terms = left.split(",")
    reason = _refusal(operands, terms, arrow, result)
    if reason:
        return Declined(f"the einsum is no product of matrices: {reason}")
    a, b = terms
    batch = [label for label in result if label in a and label in b]
    rows = [label for label in result if label not in b]
    columns = [label for label in result if label not in a]
    summed = [label for label in a if label not in result]
    extents = {
        label: extent
        for term, operand in zip(terms, operands, strict=True)
        for label, extent in zip(term, shape(operand), strict=True)
    }

    def _matrices(step: str, operand: relax.Expr, term: str, *parts: Sequence[str]) -> relax.Expr:
        order = [label for part in (batch, *parts) for label in part]
        turned = operand
        if order != list(term):
            axes = [term.index(label) for label in order]
            turned = scope.emit(f"{step}/turned", relax.op.permute_dims(operand, axes))
        if all(len(part) == 1 for part in parts):
            return turned
        sizes = [math.prod(extents[label] for label in part) for part in parts]
        dims = [*(extents[label] for label in batch), *sizes]
        return scope.emit(f"{step}/joined", relax.op.reshape(turned, dims))

    product = relax.op.matmul(
        _matrices("a", operands[0], a, rows, summed),
        _matrices("b", operands[1], b, summed, columns),
    )
    given = [*batch, *rows, *columns]
    if len(rows) != 1 or len(columns) != 1:
        dims = [extents[label] for label in given]
        product = relax.op.reshape(scope.emit("product", product), dims)
    if given == list(result):
        return product
    axes = [given.index(label) for label in result]
    return relax.op.permute_dims(scope.emit("matrices", product), axes)


def _refusal(
    operands: Sequence[relax.Expr], terms: Sequence[str], arrow: str, result: str
) -> str | None:
    """Say why an einsum is something else, or None."""
    if len(operands) != 2:
        return f"it has {len(operands)} operands"
    if not arrow or "." in "".join(terms):
        return "its labels are not all spelled out"
    if any(len(set(term)) < len(term) for term in (*terms, result)):
        return "a label stands twice in one term"
    a, b = (set(term) for term in terms)
    if (a ^ b) - set(result):
        return "a label of one operand alone is summed"
    if not (a & b) - set(result):
        return "nothing is summed over both operands"
    dims = [dict(zip(term, shape(x), strict=True)) for term, x in zip(terms, operands, strict=True)]
    if any(dims[0][label] != dims[1][label] for label in a & b):
        return "an axis is broadcast"
    return None
