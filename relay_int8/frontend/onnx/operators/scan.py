"""ONNX's Scan, a loop over slices of tensors: which slice a run reads, where its results go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from tvm import relax

from relay_int8.graph.dataflow import constant, shape


@dataclass(frozen=True)
class ScanForm:
    """Attributes of a Scan.

    Parameters
    ----------
    body
        The graph of one run.
    count
        How many of the last operands are read slice by slice.
    input_axes, output_axes
        Of each scanned operand and result, the axis that runs go along; empty where all are 0.
    input_directions, output_directions
        1 where the first run has the last slice; empty where all are 0.
    """

    body: onnx.GraphProto
    count: int
    input_axes: Sequence[int]
    input_directions: Sequence[int]
    output_axes: Sequence[int]
    output_directions: Sequence[int]

    @classmethod
    def of(cls, node: onnx.NodeProto) -> ScanForm:
        """Return the form of a node; KeyError where it has no body."""
        given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if not 0 < given["num_scan_inputs"] <= len(node.input):
            raise ValueError(f"{given['num_scan_inputs']} of {len(node.input)} inputs are scanned")
        lists = (
            given.get(f"scan_{name}", ())
            for name in ("input_axes", "input_directions", "output_axes", "output_directions")
        )
        return cls(given["body"], given["num_scan_inputs"], *lists)

    def steps(self, scanned: Sequence[relax.Expr]) -> int:
        """Return the number of runs."""
        extents = {shape(x)[self._axis(index, x)] for index, x in enumerate(scanned)}
        if len(extents) != 1:
            raise ValueError(f"its operands have {sorted(extents)} slices")
        return extents.pop()

    def slices(
        self, bb: relax.BlockBuilder, scanned: Sequence[relax.Expr], run: int, count: int
    ) -> list[relax.Expr]:
        """Return what a run reads of each scanned operand."""
        rows = []
        for index, x in enumerate(scanned):
            axis, array = self._axis(index, x), constant(x)
            at = count - 1 - run if _of(self.input_directions, index) else run
            if array is not None:
                rows.append(relax.const(np.take(array, at, axis).copy()))
                continue
            row = bb.emit(relax.op.strided_slice(x, [axis], [at], [at + 1]))
            rows.append(bb.emit(relax.op.squeeze(row, [axis])))
        return rows

    def joined(self, bb: relax.BlockBuilder, index: int, rows: Sequence[relax.Expr]) -> relax.Expr:
        """Return a scanned result, of what each run gives."""
        axis = _of(self.output_axes, index) % (len(shape(rows[0])) + 1)
        in_order = rows[::-1] if _of(self.output_directions, index) else rows
        return bb.emit(
            relax.op.concat([bb.emit(relax.op.expand_dims(row, axis)) for row in in_order], axis)
        )

    def _axis(self, index: int, x: relax.Expr) -> int:
        return _of(self.input_axes, index) % len(shape(x))


def _of(numbers: Sequence[int], index: int) -> int:
    return int(numbers[index]) if numbers else 0
