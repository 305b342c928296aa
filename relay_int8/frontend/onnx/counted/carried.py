"""Along which axis of its results a node's counted tensors go on.

Rows that are there have the file's values as long as no operator mixes rows: what is computed of
the others is never read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.frontend.importing import SizedByValuesError
from relay_int8.frontend.onnx.counted.rows import Counted, part, resized
from relay_int8.frontend.onnx.operators.constant_nodes import attribute
from relay_int8.graph.dataflow import constant, shape

ELEMENTWISE = {
    "Abs", "Acos", "Add", "And", "Asin", "Atan", "BitShift", "BitwiseAnd", "BitwiseNot",
    "BitwiseOr", "BitwiseXor", "Cast", "Ceil", "Celu", "Clip", "Cos", "Cosh", "DequantizeLinear",
    "Div", "Dropout", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater", "GreaterOrEqual",
    "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual",
    "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow",
    "QuantizeLinear", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin",
    "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu",
    "Where", "Xor",
}  # fmt: skip
BY_IMAGE = {
    "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DepthToSpace",
    "GlobalAveragePool", "GlobalMaxPool", "GroupNormalization", "InstanceNormalization", "LRN",
    "MaxPool", "Resize", "SpaceToDepth",
}  # fmt: skip
"""Operators whose first axis is that of images, each by itself."""
ALONG = {
    "ArgMax", "ArgMin", "CumSum", "LogSoftmax", "LpNormalization", "Softmax", "Split", "TopK",
}  # fmt: skip
"""Operators along one axis, which give as many axes."""
REDUCTIONS = {
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
}  # fmt: skip
LAST = {"ArgMax": 0, "ArgMin": 0, "LpNormalization": -1, "Split": 0}
"""The axis where a node names none; that of others is the last one."""


@dataclass(frozen=True)
class Case:
    """A node whose operands are counted.

    Parameters
    ----------
    node
        The node.
    inputs
        Its operands.
    counted
        Of each operand what rows it has; None where all.
    """

    node: onnx.NodeProto
    inputs: Sequence[Any]
    counted: Sequence[Counted | None]
    emit: Emit

    def only(self, *numbers: int) -> Counted:
        """Return how the one counted operand is, which has one of some numbers."""
        found = [i for i, counted in enumerate(self.counted) if counted is not None]
        if len(found) != 1 or found[0] not in numbers:
            raise refusal()
        counted = self.counted[found[0]]
        assert counted is not None
        return counted

    def rank(self, number: int = 0) -> int:
        """Return how many axes an operand has."""
        return len(shape(self.inputs[number]))

    def axis(self, default: int = -1) -> int:
        """Return the axis along which the node works."""
        named = attribute(self.node, "axis")
        return (default if named is None else named) % self.rank()

    def reduced(self) -> list[int]:
        """Return the axes that a reduction takes away; all where it names none."""
        named = self.integers("axes", 1)
        if not named and attribute(self.node, "noop_with_empty_axes"):
            return []
        return [axis % self.rank() for axis in named or range(self.rank())]

    def integers(self, name: str, number: int) -> list[int] | None:
        """Return integers that are an attribute or an operand; None where there are none."""
        for each in self.node.attribute:
            if each.name == name:
                return list(each.ints)
        if len(self.inputs) <= number or self.inputs[number] is None:
            return None
        array = constant(self.inputs[number])
        if array is None:
            raise refusal()
        return [int(value) for value in array.reshape(-1)]


Rule = Callable[[Case, relax.Expr], Counted]
"""Returns what rows a result has."""


def refusal() -> SizedByValuesError:
    """Return the error of a node that mixes rows of which some are not there."""
    return SizedByValuesError(
        "it reads a tensor that has as many rows as values say, and does more than treat each"
    )


def _elementwise(case: Case, y: relax.Expr) -> Counted:
    """Go on along the axis that operands have from the right."""
    rank = len(shape(y))
    found: Counted | None = None
    for x, counted in zip(case.inputs, case.counted, strict=True):
        if counted is None:
            continue
        axis = rank - len(shape(x)) + counted.axis
        if shape(x)[counted.axis] != shape(y)[axis]:
            raise refusal()
        if found is not None and found.axis != axis:
            raise refusal()
        found = found or Counted(axis, counted.live)
    assert found is not None
    behind = rank - found.axis
    for x, counted in zip(case.inputs, case.counted, strict=True):
        dims = () if counted is not None or x is None else shape(x)
        if len(dims) >= behind and dims[len(dims) - behind] != 1:
            raise refusal()
    return found


def _by_image(case: Case, _: relax.Expr) -> Counted:
    counted = case.only(0)
    if counted.axis:
        raise refusal()
    return counted


def _along(case: Case, y: relax.Expr) -> Counted:
    counted = case.only(0)
    if case.node.op_type == "CumSum":
        if attribute(case.node, "reverse"):
            raise refusal()
        return counted  # sums up to a row read no row behind it
    if case.axis(LAST.get(case.node.op_type, -1)) == counted.axis:
        raise refusal()
    return _less(case, counted, [case.axis(LAST.get(case.node.op_type, -1))], y)


def _less(case: Case, counted: Counted, axes: Sequence[int], y: relax.Expr) -> Counted:
    """Return what rows there are without some axes, where the result lacks them."""
    if len(shape(y)) == case.rank():
        return counted
    return Counted(counted.axis - sum(axis < counted.axis for axis in axes), counted.live)


def _reduced(case: Case, y: relax.Expr) -> Counted:
    counted = case.only(0)
    axes = case.reduced()
    if counted.axis in axes:
        raise refusal()
    return _less(case, counted, axes, y)


def _normalized(case: Case, _: relax.Expr) -> Counted:
    counted = case.only(0)
    if counted.axis >= case.axis():
        raise refusal()
    return counted


def _transposed(case: Case, _: relax.Expr) -> Counted:
    counted = case.only(0)
    order = case.integers("perm", 9) or list(reversed(range(case.rank())))
    return Counted(order.index(counted.axis), counted.live)


def _reshaped(case: Case, y: relax.Expr) -> Counted:
    """Find the axis of as many elements before it, and rows that are made of whole rows."""
    counted = case.only(0)
    before = math.prod(shape(case.inputs[0])[: counted.axis])
    (rows,) = shape(counted.live)
    dims = shape(y)
    fitting = [
        axis
        for axis, extent in enumerate(dims)
        if math.prod(dims[:axis]) == before and (extent % rows == 0 or rows % extent == 0)
    ]
    same = [axis for axis in fitting if dims[axis] == rows]
    parts = [axis for axis in fitting if dims[axis] > 1]
    if not same and not parts:
        raise refusal()
    axis = same[0] if same else parts[0]
    return Counted(axis, resized(case.emit, counted.live, dims[axis]))


def _unsqueezed(case: Case, y: relax.Expr) -> Counted:
    counted = case.only(0)
    rank = len(shape(y))
    new = {axis % rank for axis in case.integers("axes", 1) or ()}
    kept = [axis for axis in range(rank) if axis not in new]
    return Counted(kept[counted.axis], counted.live)


def _squeezed(case: Case, _: relax.Expr) -> Counted:
    counted = case.only(0)
    dims = shape(case.inputs[0])
    named = case.integers("axes", 1)
    gone = [axis % len(dims) for axis in named or ()] or [
        axis for axis, extent in enumerate(dims) if extent == 1
    ]
    if counted.axis in gone:
        raise refusal()
    return Counted(counted.axis - sum(axis < counted.axis for axis in gone), counted.live)


def _sliced(case: Case, _: relax.Expr) -> Counted:
    """Go on where other axes are cut; of the counted one the first rows, or those behind them."""
    counted = case.only(0)
    starts, ends = case.integers("", 1) or [], case.integers("", 2) or []
    axes = [axis % case.rank() for axis in case.integers("", 3) or range(len(starts))]
    steps = case.integers("", 4) or [1] * len(starts)
    if counted.axis not in axes:
        return counted
    place = axes.index(counted.axis)
    (rows,) = shape(counted.live)
    if steps[place] != 1 or starts[place] < 0 or ends[place] < 0:
        raise refusal()
    begin, end = (min(value, rows) for value in (starts[place], ends[place]))
    return Counted(counted.axis, part(case.emit, counted.live, begin, max(begin, end)))


def _gathered(case: Case, _: relax.Expr) -> Counted:
    """Take the rows that an index names: those that there are come first, as in the file."""
    data, index = case.counted
    axis = case.axis(0)
    if index is not None:
        if data is not None and data.axis != axis:
            raise refusal()
        return Counted(axis + index.axis, index.live)
    assert data is not None
    if data.axis == axis:
        raise refusal()
    wider = case.rank(1) - 1 if data.axis > axis else 0
    return Counted(data.axis + wider, data.live)


def _gathered_at(case: Case, _: relax.Expr) -> Counted:
    data, index = case.counted
    behind = shape(case.inputs[1])[-1]
    if attribute(case.node, "batch_dims") or index is None or index.axis == case.rank(1) - 1:
        raise refusal()
    if data is not None and data.axis >= behind:
        raise refusal()
    return index


def _elements_gathered(case: Case, _: relax.Expr) -> Counted:
    data, index = case.counted
    if index is None or (data is not None and index.axis != data.axis):
        raise refusal()
    return index


def _multiplied(case: Case, y: relax.Expr) -> Counted:
    """Go on along rows of the first matrix, or columns of the second one."""
    counted = case.only(0, 1)
    number = 0 if case.counted[0] is not None else 1
    rank = case.rank(number)
    summed = rank - 1 if number == 0 else max(rank - 2, 0)
    if counted.axis == summed or case.rank(1 - number) == 1:
        raise refusal()
    if counted.axis < rank - 2 and case.rank(1 - number) > 2:
        raise refusal()  # matrices of its own for each row
    return Counted(len(shape(y)) - rank + counted.axis, counted.live)


def _of_rows(case: Case, _: relax.Expr) -> Counted:
    """Multiply the rows of a matrix."""
    counted = case.only(0)
    if counted.axis or attribute(case.node, "transA"):
        raise refusal()
    return counted


def _pooled(case: Case, _: relax.Expr) -> Counted:
    """Go on along boxes, of which each has a number of its image."""
    image, boxes, numbers = case.counted
    found = boxes or numbers
    if image is not None or found is None or found.axis:
        raise refusal()
    return found


def _sampled(case: Case, _: relax.Expr) -> Counted:
    """Go on along the places of a grid, in front of which an image has its channels."""
    counted = case.only(1)
    if counted.axis not in (1, 2):
        raise refusal()
    return Counted(counted.axis + 1, counted.live)


RULES: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(BY_IMAGE, _by_image),
    **dict.fromkeys(ALONG, _along),
    **dict.fromkeys(REDUCTIONS, _reduced),
    "Flatten": _reshaped,
    "Gather": _gathered,
    "GatherElements": _elements_gathered,
    "GatherND": _gathered_at,
    "Gemm": _of_rows,
    "GridSample": _sampled,
    "LayerNormalization": _normalized,
    "MatMul": _multiplied,
    "Reshape": _reshaped,
    "RoiAlign": _pooled,
    "Slice": _sliced,
    "Squeeze": _squeezed,
    "Transpose": _transposed,
    "Unsqueeze": _unsqueezed,
}
