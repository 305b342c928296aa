"""Operators that move the rows of counted tensors: join, cut, repeat, pad, read and write them."""

from __future__ import annotations

from dataclasses import replace

from tvm import relax

from relay_int8.frontend.onnx.counted.carried import Case, refusal
from relay_int8.frontend.onnx.counted.rows import (
    Counted,
    filled,
    joined,
    number_of_rows,
    part,
    written_at,
)
from relay_int8.frontend.onnx.counted.state import CountedState
from relay_int8.frontend.onnx.operators.operands import known_array
from relay_int8.graph.dataflow import dtype, shape


class CountedMoves(CountedState):
    """Imports nodes that move rows."""

    def _concat(self, case: Case) -> list[relax.Expr]:
        """Join tensors; along the counted axis, take out what is not there."""
        axis = case.axis()
        y = self._emit("y", relax.op.concat(list(case.inputs), axis))
        if self._places_of_rows.issuperset(case.inputs):
            self._places_of_rows.add(y)
        if all(counted is None or counted.axis != axis for counted in case.counted):
            known = [counted for counted in case.counted if counted is not None]
            if len(known) < len(case.counted) or len({item.axis for item in known}) > 1:
                raise refusal()
            self._counted[y] = known[0]
            return [y]
        if any(counted is not None and counted.axis != axis for counted in case.counted):
            raise refusal()
        lives = tuple(
            shape(x)[axis] if counted is None else counted.live
            for x, counted in zip(case.inputs, case.counted, strict=True)
        )
        if lives not in self._joined:
            self._joined[lives] = joined(self._emit, lives)
        place, live = self._joined[lives]
        y = self._emit("y", relax.op.take(y, place, axis))
        self._counted[y] = Counted(axis, live)
        return [y]

    def _pad(self, case: Case) -> list[relax.Expr]:
        """Pad other axes, or to a length that is known: then rows that are not there are fill."""
        counted, widths = case.counted[0], case.integers("", 1)
        if counted is None or widths is None or (len(case.inputs) > 3 and case.inputs[3]):
            raise refusal()
        x, rank = case.inputs[0], case.rank()
        left = self._sizes.left(case.inputs[1]) or [None] * len(widths)
        behind = left.pop(rank + counted.axis)
        if any(live is not None for live in left) or widths[counted.axis]:
            raise refusal()
        if behind is None and not widths[rank + counted.axis]:
            (y,) = self._convert(case.node, list(case.inputs))
            self._counted[y] = counted
            return [y]
        if behind is None or not behind.same_as(counted.live):
            raise refusal()
        value = case.inputs[2] if len(case.inputs) > 2 else None
        fill = 0.0 if value is None else float(known_array(value, "its fill value is").item())
        return self._convert(case.node, [filled(self._emit, x, counted, fill), *case.inputs[1:]])

    def _gather(self, case: Case) -> list[relax.Expr]:
        """Take rows; an index below zero counts from the last one that is there."""
        data, (x, index) = case.counted[0], case.inputs
        is_open = data is not None and data.axis == case.axis(0)
        if data is None or not is_open or index in self._places_of_rows:
            return self._carried(case)
        rows = self._emit("rows", number_of_rows(self._emit, data.live))
        rows = self._emit("rows", relax.op.astype(rows, dtype(index)))
        is_below = self._emit("is_below", relax.op.less(index, relax.const(0, dtype(index))))
        from_end = self._emit("from_end", relax.op.add(index, rows))
        place = self._emit("place", relax.op.where(is_below, from_end, index))
        return self._carried(replace(case, inputs=[x, place]))

    def _gather_at(self, case: Case) -> list[relax.Expr]:
        """Take elements; of what is counted at places that were found alone."""
        if case.counted[0] is not None and case.inputs[1] not in self._places_of_rows:
            raise refusal()
        return self._carried(case)

    def _expand(self, case: Case) -> list[relax.Expr]:
        """Repeat along axes of extent 1, as often as there are rows of something, too."""
        x, target = case.inputs
        (y,) = self._convert(case.node, [x, target])
        rank, lives = len(shape(y)), self._sizes.lives(target) or []
        found: list[relax.Expr | None] = [None] * (rank - len(lives)) + lives
        counted = case.counted[0]
        if counted is not None:
            axis = rank - case.rank() + counted.axis
            if shape(y)[axis] != shape(x)[counted.axis]:
                raise refusal()
            found[axis] = counted.live
        return [self._noted(y, found)]

    def _slice(self, case: Case) -> list[relax.Expr]:
        """Cut; up to the length of something, too."""
        lives = self._sizes.lives(case.inputs[2])
        if any(case.inputs[i] in self._sizes for i in (1, 3, 4) if i < len(case.inputs)):
            raise refusal()
        if lives is None:
            return self._carried(case)
        starts = case.integers("", 1) or []
        axes = [axis % case.rank() for axis in case.integers("", 3) or range(len(starts))]
        steps = case.integers("", 4) or [1] * len(starts)
        (y,) = self._convert(case.node, list(case.inputs))
        found: list[relax.Expr | None] = [None] * case.rank()
        for axis, live, start, step in zip(axes, lives, starts, steps, strict=True):
            if live is not None and (start, step) != (0, 1):
                raise refusal()
            found[axis] = live
        if (counted := case.counted[0]) is not None:
            if found[counted.axis] is None:
                raise refusal()
            rows = shape(y)[counted.axis]
            both = [
                part(self._emit, live, 0, rows)
                for live in (counted.live, found[counted.axis])
                if live is not None
            ]
            found[counted.axis] = self._emit("live", relax.op.logical_and(*both))
        return [self._noted(y, found)]

    def _scatter_elements(self, case: Case) -> list[relax.Expr]:
        """Write at indices that are there; others lead to a row that is left out."""
        x, index, updates = case.inputs
        axis = case.axis(0)
        if (counted := case.counted[1]) is None or counted.axis != axis:
            raise refusal()
        beside = [1] * case.rank(1)
        beside[axis] = shape(index)[axis]
        live = self._emit("beside", relax.op.reshape(counted.live, beside))
        longer, index = written_at(self._emit, x, index, axis, live)
        return [self._shortened(case, longer, [index, updates], axis)]

    def _scatter(self, case: Case) -> list[relax.Expr]:
        """Write rows at coordinates that are there; others lead to a row that is left out."""
        x, index, updates = case.inputs
        if (counted := case.counted[1]) is None or counted.axis or case.rank(1) != 2:
            raise refusal()
        live = self._emit("beside", relax.op.expand_dims(counted.live, 1))
        longer, index = written_at(self._emit, x, index, 0, live)
        return [self._shortened(case, longer, [index, updates], 0)]

    def _shortened(
        self, case: Case, longer: relax.Expr, rest: list[relax.Expr], axis: int
    ) -> relax.Expr:
        """Return what is written to a tensor with a row more, without that row."""
        (written,) = self._convert(case.node, [longer, *rest])
        rows = shape(case.inputs[0])[axis]
        y = self._emit("y", relax.op.strided_slice(written, [axis], [0], [rows]))
        if (counted := case.counted[0]) is not None:
            self._counted[y] = counted
        return y
