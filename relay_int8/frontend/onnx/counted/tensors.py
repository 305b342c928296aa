"""Import nodes whose results are as long as values say, and what follows them.

Every node behind them is the same operator on tensors of fixed length, or is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx
from tvm import relax

from relay_int8.frontend.onnx.counted.carried import Case, refusal
from relay_int8.frontend.onnx.counted.choices import CountedChoices
from relay_int8.frontend.onnx.counted.mixing import FILLINGS
from relay_int8.frontend.onnx.counted.moves import CountedMoves
from relay_int8.frontend.onnx.counted.rows_read import rows_read
from relay_int8.frontend.onnx.counted.sizes import Sizes
from relay_int8.frontend.onnx.operators.constant_nodes import evaluate
from relay_int8.graph.dataflow import constant, shape

SELECTIONS = {"Compress": (1,), "NonMaxSuppression": (0, 1), "NonZero": (0,)}
"""Operators whose results have as many rows as values of some operands say, and their numbers."""


class CountedTensors(CountedChoices, CountedMoves):
    """Which tensors of a graph are counted, and what their nodes become.

    Parameters
    ----------
    sizes
        Their lengths.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
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

    def look_ahead(self, graph: onnx.GraphProto) -> None:
        """Learn which first rows of suppressions are read."""
        self._read = rows_read(graph)

    def real(self, value: Any) -> Any:
        """Return a tensor as what reads its values takes it: lengths are computed."""
        return self._sizes.real(value)

    def refuse(self, values: Iterable[Any]) -> None:
        """Refuse to make lists or branches of tensors that are counted, or of their lengths.

        Raises
        ------
        SizedByValuesError
            One of ``values`` is such a tensor.
        """
        if any(self.of(value) is not None or value in self._sizes for value in values):
            raise refusal()

    def results(self, node: onnx.NodeProto, inputs: list[Any]) -> list[relax.Expr] | None:
        """Return the results of a node that reads or makes counted tensors; None of another."""
        counted = [self.of(value) for value in inputs]
        has_sizes = any(value in self._sizes for value in inputs)
        arrays = [None if value is None else constant(value) for value in inputs]
        is_known = all(a is not None or v is None for a, v in zip(arrays, inputs, strict=True))
        if not any(counted):
            if node.op_type in ("Shape", "Size"):
                return None
            is_cut = node.op_type == "Slice" and inputs[0] not in self._sizes
            if has_sizes and is_known and not is_cut:
                return self._of_sizes(node, inputs, arrays)
            if not has_sizes and all(
                arrays[i] is not None for i in SELECTIONS.get(node.op_type, ())
            ):
                return None
        if node.op_type in self._special:
            return self._special[node.op_type](Case(node, inputs, counted, self._emit))
        if node.op_type != "Reshape":  # which keeps rows, whatever their number
            inputs = [self._sizes.real(value) for value in inputs]
        if not any(counted):
            return self._convert(node, inputs)
        return self._carried(Case(node, inputs, counted, self._emit))

    def _of_sizes(
        self, node: onnx.NodeProto, inputs: list[Any], arrays: list[Any]
    ) -> list[relax.Expr]:
        """Compute with sizes; what is made of such a size is counted."""
        made = {"ConstantOfShape": 0, "Expand": 1, "Range": 1}
        if node.op_type not in made:
            return self._sizes.computed(node, inputs, arrays)
        lives = self._sizes.lives(inputs[made[node.op_type]]) or []
        if node.op_type == "Range" and any(arrays[i].reshape(-1)[0] != i // 2 for i in (0, 2)):
            raise refusal()  # it starts at 0 and counts by 1
        (array,) = evaluate(node, arrays, self._sizes.opset)
        value = relax.const(array, str(array.dtype))
        behind = len(shape(value)) - len(lives) if node.op_type == "Expand" else 0
        return [self._noted(value, [None] * behind + lives)]
