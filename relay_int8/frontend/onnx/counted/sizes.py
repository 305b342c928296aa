"""Numbers of a file's shapes that are lengths of counted tensors.

``Shape`` of such a tensor gives the room that there is here. Which of its numbers is that of which
rows is kept beside it, through what exporters do with shapes: moves, the least of some, and what is
left of a number (by which PyTorch pads detections to some maximum). Where a number is read as such,
it is computed when the network runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx
from tvm import relax

from relay_int8.frontend.importing import SizedByValuesError
from relay_int8.frontend.onnx.counted.rows import number_of_rows, part
from relay_int8.frontend.onnx.operators.constant_nodes import COMPARISONS, MOVES, evaluate
from relay_int8.graph.dataflow import constant, shape

Array = np.ndarray[Any, Any]
Convert = Callable[[onnx.NodeProto, list[Any]], list[relax.Expr]]
LEAST = {"Min", "ReduceMin"}
NO_ROWS = -1
"""Mark of what depends on a length in another way than being it, or what is left beside it.

Marks above zero are lengths; those below -1 are what is left, that of mark m is -1 - m.
"""


class Sizes:
    """What numbers of constants are lengths of.

    Parameters
    ----------
    bb
        Binds values.
    opset
        Version of the standard operators.
    convert
        Returns the results of a node on tensors of fixed length.
    """

    def __init__(self, bb: relax.BlockBuilder, opset: int, convert: Convert) -> None:
        self.bb, self.opset, self.convert = bb, opset, convert
        self._lives: dict[relax.Expr, int] = {}
        self._marks: dict[relax.Expr, Array] = {}
        self._origins: dict[relax.Expr, Callable[[], relax.Expr]] = {}
        self._real: dict[relax.Expr, relax.Expr] = {}

    def note(self, value: relax.Expr, lives: list[relax.Expr | None]) -> None:
        """Keep that numbers of a constant vector are lengths."""
        self._marks[value] = np.array([self._number(live) for live in lives], "int64")
        self._origins[value] = partial(self._lengths, value, lives)

    def real(self, value: Any) -> Any:
        """Return what is computed when the network runs in place of such a constant."""
        if value not in self:
            return value
        if value not in self._real:
            self._real[value] = self._origins[value]()
        return self._real[value]

    def lives(self, value: Any) -> list[relax.Expr | None] | None:
        """Return of which rows a constant's numbers are the lengths; None where of none."""
        marks = self._of(value)
        if marks is None:
            return None
        if min(marks) < 0:
            raise SizedByValuesError("it computes with how many rows there are")
        return [self._live(mark) if mark else None for mark in marks]

    def left(self, value: Any) -> list[relax.Expr | None] | None:
        """Return beside which rows a constant's numbers are what is left; None where of none."""
        marks = self._of(value)
        if marks is None:
            return None
        if NO_ROWS in marks or max(marks) > 0:
            raise SizedByValuesError("it computes with how many rows there are")
        return [self._live(-1 - mark) if mark else None for mark in marks]

    def __contains__(self, value: Any) -> bool:
        """Whether a constant has a number that is a length, or depends on one."""
        return isinstance(value, relax.Expr) and value in self._marks

    def computed(
        self, node: onnx.NodeProto, inputs: list[Any], arrays: list[Array | None]
    ) -> list[relax.Expr]:
        """Return what a node makes of constants, and keep what its numbers are lengths of."""
        results = [np.asarray(y) for y in evaluate(node, arrays, self.opset)]
        values = [relax.const(array, str(array.dtype)) for array in results]
        computed = partial(self._computed, node, inputs)
        marks = [np.zeros(array.shape, "int64") for array in results]
        if node.op_type in COMPARISONS:
            number = 1 - [value in self for value in inputs].index(True)
            other, are_lengths = arrays[number], self._marks[inputs[1 - number]] != 0
            if other is None or inputs[number] in self or (are_lengths & (other > 0)).any():
                return computed()
            # Whether there is any row: a branch of some is right, as of none it makes none.
            marks[0][...] = np.where(are_lengths & (other == 0), NO_ROWS, 0)
        elif node.op_type in LEAST and results[0].size == 1:
            marks[0][...] = self._least(inputs, arrays, int(results[0].reshape(())))
        elif node.op_type == "Sub" and inputs[0] not in self and inputs[1] in self:
            lengths = self._marks[inputs[1]]
            is_plain = (lengths >= 0).all()
            marks[0][...] = np.where(lengths > 0, -1 - lengths, 0) if is_plain else NO_ROWS
        elif node.op_type in MOVES or node.op_type == "Where":
            moved = [value for i, value in enumerate(inputs) if i in _moved(node)]
            if any(value in self and value not in moved for value in inputs):
                raise SizedByValuesError("how large its result is depends on values of the input")
            given = [
                self._marks.get(value, np.zeros_like(array)) if index in _moved(node) else array
                for index, (value, array) in enumerate(zip(inputs, arrays, strict=True))
            ]
            marks = [np.asarray(y) for y in evaluate(node, given, self.opset)]
            if any((self._marks[value] == NO_ROWS).any() for value in moved if value in self):
                marks = [np.full(array.shape, NO_ROWS) for array in results]
        elif (same := _unchanged(node, arrays)) is not None and inputs[same] in self:
            marks = [np.broadcast_to(self._marks[inputs[same]], results[0].shape)]
        else:
            marks = [np.full(array.shape, NO_ROWS) for array in results]
        for number, (value, mark) in enumerate(zip(values, marks, strict=True)):
            if mark.any():
                self._marks[value] = mark.astype("int64")
                self._origins[value] = partial(lambda number: computed()[number], number)
        return values

    def _computed(self, node: onnx.NodeProto, inputs: list[Any]) -> list[relax.Expr]:
        return self.convert(node, [self.real(value) for value in inputs])

    def _lengths(self, value: relax.Expr, lives: list[relax.Expr | None]) -> relax.Expr:
        """Return the extents of a tensor."""
        dims = constant(value)
        assert dims is not None
        parts = [
            relax.const(dims[i : i + 1], "int64")
            if live is None
            else self.bb.emit(number_of_rows(self._emit, live))
            for i, live in enumerate(lives)
        ]
        return self.bb.emit(relax.op.concat(parts, 0))

    def _of(self, value: Any) -> list[int] | None:
        if not isinstance(value, relax.Expr) or value not in self._marks:
            return None
        return [int(mark) for mark in self._marks[value].reshape(-1)]

    def _least(self, inputs: list[Any], arrays: list[Array | None], room: int) -> int:
        """Return what the least of some numbers is the length of."""
        marks = np.concatenate(
            [
                self._marks.get(value, np.zeros_like(array)).reshape(-1)
                for value, array in zip(inputs, arrays, strict=True)
                if array is not None
            ]
        )
        distinct = set(marks.tolist()) - {0}
        if len(distinct) != 1 or NO_ROWS in distinct:
            return NO_ROWS
        live = self._live(distinct.pop())
        return self._number(part(self._emit, live, 0, min(room, shape(live)[0])))

    def _emit(self, _: str, value: relax.Expr) -> relax.Expr:
        return self.bb.emit(value)

    def _number(self, live: relax.Expr | None) -> int:
        if live is None:
            return 0
        return self._lives.setdefault(live, len(self._lives) + 1)

    def _live(self, mark: int) -> relax.Expr:
        return list(self._lives)[mark - 1]


def _unchanged(node: onnx.NodeProto, arrays: list[Array | None]) -> int | None:
    """Return the number of the operand that arithmetic with zeros or ones gives back; or None."""
    neutral = {"Add": 0, "Sub": 0, "Mul": 1, "Div": 1}.get(node.op_type)
    for same in (0, 1) if neutral is not None else ():
        other = arrays[1 - same]
        is_ordered = same and node.op_type in ("Sub", "Div")
        if other is not None and not is_ordered and (other == neutral).all():
            return same
    return None


def _moved(node: onnx.NodeProto) -> range:
    """Return the numbers of the operands whose elements a node moves."""
    several = {"Concat": range(len(node.input)), "Where": range(1, 3)}
    return several.get(node.op_type, range(1))
