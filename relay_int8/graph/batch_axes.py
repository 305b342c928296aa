"""In which axis of a tensor the images of a batch lie, and which operators keep them apart.

In its axis the batch steps slowest: an axis of 6 heads and 4 images holds the heads of the first
image, then those of the second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm import relax, tirx

from relay_int8.graph import dataflow
from relay_int8.graph.spec_calls import spec_of
from schedules.spec import Recurrence

# fmt: off
ANYWHERE = frozenset((
    "abs", "add", "argmax", "astype", "bitwise_and", "broadcast_to", "ceil", "clip", "concat",
    "cos", "dequantize", "divide", "equal", "erf", "exp", "expand_dims", "floor", "greater",
    "greater_equal", "isinf", "isnan", "less", "less_equal", "log", "logical_and",
    "logical_not", "logical_or", "matmul", "max", "maximum", "mean", "min", "minimum",
    "multiply", "negative", "nn.gelu", "nn.gelu_tanh", "nn.layer_norm", "nn.leakyrelu",
    "nn.log_softmax", "nn.relu", "nn.rms_norm", "nn.silu", "nn.softmax", "nn.softplus",
    "not_equal", "permute_dims", "power", "quantize", "reshape", "round", "rsqrt", "sigmoid",
    "sign", "sin", "split", "sqrt", "square", "squeeze", "strided_slice", "subtract", "sum",
    "take", "tanh", "tuple_get_item", "where",
))
"""Operators that treat all axes alike but for those they name: the batch may be any other one."""
ACROSS = frozenset((
    "argsort", "concat", "cumprod", "cumsum", "flip", "gather_elements", "nn.group_norm",
    "nn.instance_norm", "nn.layer_norm", "nn.log_softmax", "nn.rms_norm", "nn.softmax",
    "scatter_elements", "sort", "split", "take", "topk",
))
"""Operators that mix what lies along the axes they name, or choose from it, and keep their size."""
# fmt: on
BY_POSITION = frozenset(("gather_nd", "scatter_nd"))
"""Operators whose indices count images, where they have no batch of their own."""


def keeps_images_apart(call: relax.Expr, batch_axis: int | None, others: bool) -> bool:
    """Say whether every image of a result is made of the same image of what ``call`` reads.

    Parameters
    ----------
    batch_axis
        Axis of the batch in the first operand, None if it has none.
    others
        Whether the batch is another axis than the first, in an operand or the result.
    """
    operator = dataflow.operator(call)
    if operator in BY_POSITION and not int(getattr(call.attrs, "batch_dims", 0)):
        return False
    if isinstance(spec_of(call), Recurrence):
        return True  # whose batch has been looked at
    first = dataflow.arguments(call)[0]
    if operator in ACROSS and batch_axis is not None and batch_axis in _named_axes(call, first):
        return False
    return operator in ANYWHERE or not others


def axis_holding(before: int, shape: Sequence[int], old: int) -> int | None:
    """Return the axis of ``shape`` with ``before`` elements in front that counts batches, or None.

    Of several, all but one of extent 1, the batch by itself is the most likely one.
    """
    candidates = [
        axis
        for axis, extent in enumerate(shape)
        if math.prod(shape[:axis]) == before and extent % old == 0
    ]
    return next(
        (axis for axis in candidates if shape[axis] == old), candidates[0] if candidates else None
    )


def _named_axes(call: relax.Call, x: relax.Expr) -> list[int]:
    """Return the axes of ``x`` that the attributes of ``call`` name, counted from the front."""
    rank = len(dataflow.shape(x))
    named: list[int] = []
    for name in ("axis", "axes", "channel_axis"):
        axes = getattr(call.attrs, name, None)
        if axes is not None:
            named += [int(axes)] if isinstance(axes, int | tirx.IntImm) else list(map(int, axes))
    return [axis % rank for axis in named]
