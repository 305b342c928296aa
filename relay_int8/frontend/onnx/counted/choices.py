"""Operators that choose rows, or say how many there are, and those that read all of them together.

Before:  y = NonZero(mask)                       int64 (axes, as many as are true)
After:   y = coordinates(places(mask))           int64 (axes, elements), and which are there
"""

from __future__ import annotations

import math

import numpy as np
import onnx
from tvm import relax

from relay_int8.frontend.onnx.counted.carried import Case, refusal
from relay_int8.frontend.onnx.counted.mixing import FILLINGS, mean_of_rows
from relay_int8.frontend.onnx.counted.rows import (
    Counted,
)
from relay_int8.frontend.onnx.counted.selections import (
    coordinates,
    kept_boxes,
    top_k,
    true_places,
)
from relay_int8.frontend.onnx.counted.state import CountedState
from relay_int8.frontend.onnx.operators.constant_nodes import attribute
from relay_int8.frontend.onnx.operators.operands import known_integers
from relay_int8.graph.dataflow import constant, shape


class CountedChoices(CountedState):
    """Imports nodes that choose rows, count them, or read all of them together."""

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
