"""A number written where a computed mask is true, as one node of a known shape.

    Before:  y = ScatterND(x, Concat(Split(Transpose(NonZero(mask)))), Expand(number, shape))
    After:   y = MaskedFill(x, mask, number)

PyTorch writes ``x[torch.where(mask)] = number`` so: indices along each axis apart, each expanded to
the shape that they have. OneFormer's decoder opens the rows of its attention's mask that hide all.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

import onnx

FILL = "MaskedFill"
SAME_PLACES = {"Expand", "Squeeze", "Unsqueeze"}
"""Between places along an axis and a column of them."""
SAME_NUMBER = SAME_PLACES | {"Reshape"}
"""Between a number and as many as there are places."""

Producers = Mapping[str, onnx.NodeProto]


def masked_fill(
    node: onnx.NodeProto, producers: Producers, numbers: Container[str]
) -> onnx.NodeProto | None:
    """Return what replaces a ScatterND that writes one of ``numbers``; None if it is no such."""
    x, indices, updates = node.input
    number, mask = _origin(producers, updates, SAME_NUMBER), _mask_of(producers, indices)
    if mask is None or number not in numbers:
        return None
    return onnx.helper.make_node(FILL, [x, mask, number], list(node.output), name=node.name)


def _mask_of(producers: Producers, indices: str) -> str | None:
    """Return the mask whose true places are written at, None if it is none."""
    node = producers.get(indices)
    if node is None or node.op_type != "Concat":
        return _nonzero(producers, _origin(producers, indices, SAME_PLACES))
    columns = [_origin(producers, name, SAME_PLACES) for name in node.input]
    parts = producers.get(columns[0])
    if parts is None or parts.op_type != "Split" or list(parts.output) != columns:
        return None
    return _nonzero(producers, parts.input[0])


def _nonzero(producers: Producers, name: str) -> str | None:
    """Return the mask of ``Transpose(NonZero(mask))``."""
    rows = producers.get(name)
    places = producers.get(rows.input[0]) if rows and rows.op_type == "Transpose" else None
    return places.input[0] if places and places.op_type == "NonZero" else None


def _origin(producers: Producers, name: str, passing: Container[str]) -> str:
    """Return what a tensor is computed from by operators that only change its shape."""
    while (node := producers.get(name)) and node.op_type in passing and node.input:
        name = node.input[0]
    return name
