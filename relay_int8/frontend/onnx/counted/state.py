"""What is known of the counted tensors of a graph, for what imports their nodes."""

from __future__ import annotations

from typing import Any

from tvm import relax

from relay_int8.frontend.onnx.counted.carried import RULES, Case, refusal
from relay_int8.frontend.onnx.counted.rows import (
    Counted,
)
from relay_int8.frontend.onnx.counted.sizes import Sizes
from relay_int8.frontend.onnx.operators.constant_nodes import MOVES

ROOM = "what it makes has as many elements as values say, in more than one way"


class CountedState:
    """What is known of the counted tensors of a graph.

    Parameters
    ----------
    sizes
        Their lengths.
    """

    def __init__(self, sizes: Sizes) -> None:
        self._sizes, self._convert = sizes, sizes.convert
        self._read: dict[str, int] = {}
        self._counted: dict[relax.Expr, Counted] = {}
        self._places: dict[relax.Expr, tuple[relax.Expr, relax.Expr]] = {}
        self._joined: dict[tuple[relax.Expr | int, ...], tuple[relax.Expr, relax.Expr]] = {}
        self._places_of_rows: set[relax.Expr] = set()  # none of them below zero

    def of(self, value: Any) -> Counted | None:
        """Return which rows of a tensor are there; None where all are."""
        return self._counted.get(value) if isinstance(value, relax.Expr) else None

    def _carried(self, case: Case) -> list[relax.Expr]:
        """Convert a node as any other, and note what is counted of its results."""
        if case.node.op_type not in RULES:
            raise refusal()
        values = self._convert(case.node, list(case.inputs))
        for y in values:
            if isinstance(y.ty, relax.TensorType):
                self._counted[y] = RULES[case.node.op_type](case, y)
        if case.node.op_type in MOVES and case.inputs[0] in self._places_of_rows:
            self._places_of_rows.update(values)
        return values

    def _noted(self, value: relax.Expr, lives: list[relax.Expr | None]) -> relax.Expr:
        """Note the axis along which a tensor is counted, of a list with its axes."""
        found = [(axis, live) for axis, live in enumerate(lives) if live is not None]
        if len(found) > 1:
            raise NotImplementedError(ROOM)
        for axis, live in found:
            self._counted[value] = Counted(axis, live)
        return value

    def _emit(self, _: str, value: relax.Expr) -> relax.Expr:
        return self._sizes.bb.emit(value)
