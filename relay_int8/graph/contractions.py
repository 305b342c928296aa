"""Multiply-accumulates of one call of Relax: convolutions, matrix products, einsums.

What multiplies counts, whoever computes it: integers, a float kernel of this project, or TVM's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm import relax

from relay_int8.graph.dataflow import operator, shape

LAYERS = ("matmul", "nn.conv2d", "nn.conv2d_transpose")
"""Operators that layers with weights are, in the canonical form of a network."""


def multiply_accumulates(call: relax.Expr) -> int:
    """Return the multiply-accumulates of ``call``; 0 for an operator that contracts nothing."""
    count = _COUNTS.get(operator(call))
    return 0 if count is None else count(call)


def _convolution(call: relax.Call) -> int:
    """Each output is a sum over the weights of its channel; one of one weight is a scale.

    A batch norm between float tensors (PatchTST) becomes such a convolution.
    """
    weights = shape(call.args[1])
    terms = math.prod(weights) // weights[str(call.attrs.kernel_layout).index("O")]
    return 0 if terms == 1 else math.prod(shape(call)) * terms


def _transposed_convolution(call: relax.Call) -> int:
    """Each input is multiplied by all weights of its channel."""
    weights = shape(call.args[1])
    channels = weights[str(call.attrs.kernel_layout).index("I")]
    return math.prod(shape(call.args[0])) * math.prod(weights) // channels


def _matmul(call: relax.Call) -> int:
    return math.prod(shape(call)) * shape(call.args[0])[-1]


def _einsum(call: relax.Call) -> int:
    """Each term of a sum is a product of all operands; where no label is summed there is none."""
    operands = list(call.args[0].fields)
    left, arrow, result = str(call.attrs.subscripts).replace(" ", "").partition("->")
    extents: dict[str, int] = {}
    for term, operand in zip(left.split(","), operands, strict=True):
        dims = shape(operand)
        for label, extent in zip(_labels(term, len(dims)), dims, strict=True):
            extents[label] = max(extent, extents.get(label, 1))
    letters = left.replace(",", "").replace(".", "")
    # Without an arrow the labels that stand once are kept, as in NumPy.
    kept = result if arrow else {letter for letter in letters if letters.count(letter) == 1}
    if set(letters) <= set(kept):
        return 0
    return math.prod(extents.values()) * (len(operands) - 1)


def _labels(term: str, rank: int) -> list[str]:
    """Return a label for each axis; those that an ellipsis stands for count from the last one."""
    before, dots, after = term.partition("...")
    hidden = range(rank - len(before) - len(after), 0, -1) if dots else ()
    return [*before, *(f"...{axis}" for axis in hidden), *after]


_COUNTS: dict[str, Callable[[relax.Call], int]] = {
    **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), _convolution),
    **dict.fromkeys(
        ("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose"),
        _transposed_convolution,
    ),
    "matmul": _matmul,
    "einsum": _einsum,
}
