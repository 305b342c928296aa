"""Einsums of two operands as matrix products, which have integer kernels.

    "bhid,bhjd->bhij"   q @ permute(k, (0, 1, 3, 2))
    "bqc,bchw->bqhw"    reshape(q @ reshape(x, (b, c, h * w)), (b, q, h, w))

Labels that both operands and the result have are batches, those that the result lacks are summed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import ascii_letters

from tvm import relax

from relay_int8.graph.dataflow import constant, shape

Emit = Callable[[str, relax.Expr], relax.Expr]


@dataclass(frozen=True)
class _Labels:
    """The labels of both operands and of the result, and what they are to the product."""

    a: str
    b: str
    y: str

    @property
    def batch(self) -> str:
        """Labels of both operands and the result: one product for each of their indices."""
        return "".join(label for label in self.y if label in self.a and label in self.b)

    @property
    def rows(self) -> str:
        """Labels of the result that the second operand lacks: rows of the product."""
        return "".join(label for label in self.y if label not in self.b)

    @property
    def columns(self) -> str:
        """Labels of the result that the first operand lacks: columns of the product."""
        return "".join(label for label in self.y if label not in self.a)

    @property
    def summed(self) -> str:
        """Labels that the result lacks: the product sums over them."""
        return "".join(label for label in self.a if label not in self.y)


def einsum(operands: Sequence[relax.Expr], equation: str, emit: Emit) -> relax.Expr:
    """Return an einsum: a matrix product with moved axes where it is one.

    Parameters
    ----------
    operands
        Tensors of known shapes.
    equation
        As NumPy has it.
    emit
        Binds a value on the way to the result, under a name.
    """
    equation = equation.replace(" ", "")
    labels = _labels(_spelled(equation, [len(shape(operand)) for operand in operands]))
    if labels is None or len(operands) != 2:
        return relax.op.einsum(operands, equation)
    a, b = operands
    if constant(a) is not None and constant(b) is None:  # weights are the right operand
        a, b, labels = b, a, _Labels(labels.b, labels.a, labels.y)
    extents = dict(zip(labels.a + labels.b, shape(a) + shape(b), strict=True))
    agree = all(extents[label] == size for label, size in zip(labels.a, shape(a), strict=True))
    if not agree:
        return relax.op.einsum(operands, equation)
    batch, rows, columns, summed = labels.batch, labels.rows, labels.columns, labels.summed

    def _merged(parts: Sequence[str]) -> list[int]:
        sizes = [extents[label] for label in batch]
        return sizes + [math.prod(extents[label] for label in part) for part in parts]

    left = _turned(a, labels.a, batch + rows + summed, emit)
    left = _reshaped(left, _merged([rows, summed]), emit)
    right = _turned(b, labels.b, batch + summed + columns, emit)
    right = _reshaped(right, _merged([summed, columns]), emit)
    whole = batch + rows + columns
    product = emit("product", relax.op.matmul(left, right))
    y = _reshaped(product, [extents[label] for label in whole], emit)
    return _turned(y, whole, labels.y, emit)


def _spelled(equation: str, ranks: Sequence[int]) -> str:
    """Return an equation with labels in place of ellipses, which stand for the same axes."""
    terms, _, _ = equation.partition("->")
    counts = [
        rank - len(term.replace("...", ""))
        for term, rank in zip(terms.split(","), ranks, strict=False)
        if "..." in term
    ]
    unused = [label for label in ascii_letters if label not in equation]
    axes = "".join(unused[: max(counts, default=0)])
    if len(set(counts)) > 1 or ("->" not in equation and axes):
        return equation
    return equation.replace("...", axes)


def _labels(equation: str) -> _Labels | None:
    """Return the labels of an equation that is one matrix product, or None."""
    left, arrow, result = equation.partition("->")
    a, comma, b = left.partition(",")
    if not comma or "." in equation or "," in b:
        return None
    if not arrow:  # the labels that stand once, in alphabetical order
        result = "".join(sorted(label for label in a + b if (a + b).count(label) == 1))
    if any(len(set(term)) < len(term) for term in (a, b, result)):
        return None
    shared, kept = set(a) & set(b), set(result)
    is_product = bool(shared - kept) and (set(a) ^ set(b)) <= kept <= set(a) | set(b)
    return _Labels(a, b, result) if is_product else None


def _turned(x: relax.Expr, labels: str, wanted: str, emit: Emit) -> relax.Expr:
    order = [labels.index(label) for label in wanted]
    return x if order == sorted(order) else emit("turned", relax.op.permute_dims(x, order))


def _reshaped(x: relax.Expr, dims: list[int], emit: Emit) -> relax.Expr:
    return x if list(shape(x)) == dims else emit("shaped", relax.op.reshape(x, dims))
