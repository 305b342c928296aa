"""Einsums as matrix products, which have integer kernels.

    "bhid,bhjd->bhij"            q @ permute(k, (0, 1, 3, 2))
    "bqc,bchw->bqhw"             reshape(q @ reshape(x, (b, c, h * w)), (b, q, h, w))
    "blhd,bhdv,blh->blhv"        (q @ kv) * reshape(z, (b, l, h, 1))

Labels that both operands and the result have are batches, those that the result lacks are summed.
Of more than two operands those two come first whose product is the smallest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_letters

from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.graph.dataflow import constant, shape


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

    Raises
    ------
    ValueError
        The result has a label that no operand has.
    """
    equation = _spelled(equation.replace(" ", ""), [len(shape(operand)) for operand in operands])
    _require_labels(equation)
    if len(operands) > 2 and (terms := _terms(equation)) is not None:
        return _by_pairs(operands, *terms, emit)
    labels = _labels(equation) if len(operands) == 2 else None
    if labels is None:
        multiplied = _multiplied(operands, equation, emit)
        return relax.op.einsum(operands, equation) if multiplied is None else multiplied
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


def _by_pairs(
    operands: Sequence[relax.Expr], terms: Sequence[str], result: str, emit: Emit
) -> relax.Expr:
    """Return an einsum of several operands, two at a time."""
    left = list(zip(terms, operands, strict=True))
    while len(left) > 2:
        _, first, second = min(
            (math.prod(_extents([left[i], left[j]], _kept(left, i, j, result))), i, j)
            for i, j in itertools.combinations(range(len(left)), 2)
        )
        (a, x), (b, y) = left[first], left[second]
        kept = _kept(left, first, second, result)
        product = emit("pair", einsum([x, y], f"{a},{b}->{kept}", emit))
        del left[second]
        left[first] = (kept, product)
    (a, x), (b, y) = left
    return einsum([x, y], f"{a},{b}->{result}", emit)


def _kept(left: Sequence[tuple[str, relax.Expr]], first: int, second: int, result: str) -> str:
    """Return the labels of two operands that the other ones or the result have."""
    others = {
        label for i, (term, _) in enumerate(left) if i not in (first, second) for label in term
    }
    both = dict.fromkeys(left[first][0] + left[second][0])
    return "".join(label for label in both if label in others or label in result)


def _extents(pair: Sequence[tuple[str, relax.Expr]], labels: str) -> list[int]:
    sizes: dict[str, int] = {}
    for term, operand in pair:
        for label, size in zip(term, shape(operand), strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
    return [sizes[label] for label in labels]


def _terms(equation: str) -> tuple[list[str], str] | None:
    """Return the labels of each operand and of the result, or None where one has a label twice."""
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    if not arrow:  # the labels that stand once, in alphabetical order
        letters = "".join(terms)
        result = "".join(sorted(label for label in letters if letters.count(label) == 1))
    if "." in equation or any(len(set(term)) < len(term) for term in (*terms, result)):
        return None
    return terms, result


def _multiplied(operands: Sequence[relax.Expr], equation: str, emit: Emit) -> relax.Expr | None:
    """Return an einsum that sums nothing as a product element by element, or None."""
    terms, result = _terms(equation) or ([], "")
    if len(terms) != 2 or set("".join(terms)) != set(result):
        return None
    sides = []
    for term, operand in zip(terms, operands, strict=True):
        sizes = dict(zip(term, shape(operand), strict=True))
        turned = _turned(operand, term, "".join(label for label in result if label in term), emit)
        sides.append(_reshaped(turned, [sizes.get(label, 1) for label in result], emit))
    return relax.op.multiply(*sides)


def _require_labels(equation: str) -> None:
    """Refuse a result of labels that no operand has: TVM 0.27 ends the process there."""
    terms, _, result = equation.partition("->")
    if unknown := sorted(set(result) - set(terms)):
        raise ValueError(f"its result has {', '.join(unknown)}, and no operand has: {equation}")


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
    terms, result = _terms(equation) or ([], "")
    if len(terms) != 2:
        return None
    a, b = terms
    shared, kept = set(a) & set(b), set(result)
    is_product = bool(shared - kept) and (set(a) ^ set(b)) <= kept <= set(a) | set(b)
    return _Labels(a, b, result) if is_product else None


def _turned(x: relax.Expr, labels: str, wanted: str, emit: Emit) -> relax.Expr:
    order = [labels.index(label) for label in wanted]
    return x if order == sorted(order) else emit("turned", relax.op.permute_dims(x, order))


def _reshaped(x: relax.Expr, dims: list[int], emit: Emit) -> relax.Expr:
    return x if list(shape(x)) == dims else emit("shaped", relax.op.reshape(x, dims))
