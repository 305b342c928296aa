"""What operators on counted tensors become that do more than treat each row.

Before:  y = NonZero(mask)                       int64 (axes, as many as are true)
After:   y = coordinates(places(mask))           int64 (axes, elements), and which are there
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from tvm import relax

from relay_int8.frontend.onnx.counted.carried import RULES, Case, refusal
from relay_int8.frontend.onnx.counted.mixing import FILLINGS, mean_of_rows
from relay_int8.frontend.onnx.counted.rows import (
    Counted,
    filled,
    joined,
    number_of_rows,
    part,
    written_at,
)
from relay_int8.frontend.onnx.counted.selections import (
    coordinates,
    kept_boxes,
    top_k,
    true_places,
)
from relay_int8.frontend.onnx.counted.sizes import Convert, Sizes
from relay_int8.frontend.onnx.operators.constant_nodes import MOVES, attribute
from relay_int8.frontend.onnx.operators.operands import known_array, known_integers
from relay_int8.graph.dataflow import constant, dtype, shape

ROOM = "what it makes has as many elements as values say, in more than one way"


class CountedOperators:
    """State of a graph's counted tensors, and what operators become that do more than treat rows.

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
        self._bb = bb
        self._opset = opset
        self._convert = convert
        self._read: dict[str, int] = {}
        self._sizes = Sizes(bb, opset, convert)
        self._counted: dict[relax.Expr, Counted] = {}
        self._places: dict[relax.Expr, tuple[relax.Expr, relax.Expr]] = {}
        self._joined: dict[tuple[relax.Expr | int, ...], tuple[relax.Expr, relax.Expr]] = {}
        self._places_of_rows: set[relax.Expr] = set()  # none of them below zero
        self._special = {
            "Compress": self._compress,
            "Concat": self._concat,
            "Expand": self._expand,
            "Gather": self._gather,
            "GatherElements": self._gather_at,
            "GatherND": self._gather_at,
            "NonMaxSuppression": self._suppress,
            "NonZero": self._non_zero,
            "Pad": self._pad,
            "ReduceMean": self._mean,
            "ScatterElements": self._scatter_elements,
            "ScatterND": self._scatter,
            "Shape": self._shape,
            "Size": self._shape,
            "Slice": self._slice,
            "TopK": self._top_k,
            **dict.fromkeys(FILLINGS, self._mix),
        }

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

    def _shape(self, case: Case) -> list[relax.Expr]:
        """Return the extents that there is room for."""
        counted, dims = case.only(0), shape(case.inputs[0])
        lives: list[relax.Expr | None] = [None] * len(dims)
        lives[counted.axis] = counted.live
        extents = relax.const(np.array(dims, "int64"), "int64")
        self._sizes.note(extents, lives)
        if case.node.op_type == "Size":
            product = onnx.helper.make_node("ReduceProd", ["x"], ["y"], keepdims=0)
            return self._sizes.computed(product, [extents], [constant(extents)])
        start, end = (attribute(case.node, name) for name in ("start", "end"))
        if (start, end) == (None, None):
            return [extents]
        chosen = relax.const(np.array(dims[start:end], "int64"), "int64")
        self._sizes.note(chosen, lives[start:end])
        return [chosen]

    def _true_places(self, mask: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
        """Return the places of what is true; found once for all that ask."""
        if mask not in self._places:
            self._places[mask] = true_places(self._emit, mask, self.of(mask))
        return self._places[mask]

    def _non_zero(self, case: Case) -> list[relax.Expr]:
        place, live = self._true_places(case.inputs[0])
        y = self._emit("y", coordinates(self._emit, place, shape(case.inputs[0])))
        self._counted[y] = Counted(1, live)
        self._places_of_rows.add(y)
        return [y]

    def _compress(self, case: Case) -> list[relax.Expr]:
        x, condition = case.inputs
        axis = attribute(case.node, "axis")
        counted = case.counted[0]
        if counted is not None and (case.counted[1] is None or counted.axis != (axis or 0)):
            raise refusal()
        place, live = self._true_places(condition)
        if axis is None:
            x, axis = self._emit("flat", relax.op.reshape(x, (math.prod(shape(x)),))), 0
        axis %= len(shape(x))
        y = self._emit("y", relax.op.take(x, place, axis))
        self._counted[y] = Counted(axis, live)
        return [y]

    def _suppress(self, case: Case) -> list[relax.Expr]:
        by_centre = bool(attribute(case.node, "center_point_box"))
        read = self._read.get(case.node.output[0])
        rows, live = kept_boxes(self._emit, case.inputs, case.counted, by_centre, read)
        y = self._emit("y", rows)
        self._counted[y] = Counted(0, live)
        self._places_of_rows.add(y)
        return [y]

    def _top_k(self, case: Case) -> list[relax.Expr]:
        """Take the highest of what is there, or as many as there are of something else."""
        sizes, counted = self._sizes.lives(case.inputs[1]), case.counted[0]
        (k,) = known_integers(case.inputs[1], "its k is")
        axis = case.axis()
        if counted is None or counted.axis != axis:
            live = sizes[0] if sizes else None
            if counted is not None and live is not None:
                raise refusal()
            values = self._convert(case.node, list(case.inputs))
            found = counted if live is None else Counted(axis, live)
            self._counted |= {} if found is None else dict.fromkeys(values, found)
            return values
        if case.rank() > 1:
            raise refusal()
        values, place, live = top_k(self._emit, case.node, case.inputs[0], counted, k)
        values = self._emit("values", values)
        self._counted |= {value: Counted(0, live) for value in (values, place)}
        self._places_of_rows.add(place)
        return [values, place]

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

    def _mix(self, case: Case) -> list[relax.Expr]:
        """Read rows together: those that are not there hold what does not count."""
        found = FILLINGS[case.node.op_type](case)
        if found is None:
            return self._carried(case)
        inputs, counted = found
        values = self._convert(case.node, inputs)
        self._counted |= {} if counted is None else dict.fromkeys(values, counted)
        return values

    def _mean(self, case: Case) -> list[relax.Expr]:
        mean = mean_of_rows(case)
        return self._carried(case) if mean is None else [self._emit("y", mean)]

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

    def _emit(self, _: str, value: relax.Expr) -> relax.Expr:
        return self._bb.emit(value)
