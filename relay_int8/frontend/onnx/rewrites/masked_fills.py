"""A number written where a computed mask is true, as one node of a known shape.

    Before:  y = ScatterND(x, Concat(Split(Transpose(NonZero(mask)))), Expand(number, shape))
    After:   y = MaskedFill(x, mask, number)

PyTorch writes ``x[torch.where(mask)] = number`` so: indices along each axis apart, each expanded to
the shape that they have. OneFormer's decoder opens the rows of its attention's mask that hide all.
"""

from __future__ import annotations

from collections.abc import Container

import onnx

from relay_int8.frontend.onnx.rewrites.producers import (
    Producers,
    origin_of,
    places_of,
    produced_by,
)

FILL = "MaskedFill"
SAME_PLACES = {"Expand", "Squeeze", "Unsqueeze"}
"""Between places along an axis and a column of them."""
SAME_NUMBER = SAME_PLACES | {"Reshape"}
"""Between a number and as many as there are places."""


def masked_fill(
    node: onnx.NodeProto, producers: Producers, numbers: Container[str]
) -> onnx.NodeProto | None:
    """Return what replaces a ScatterND that writes one of ``numbers``; None if it is no such."""
    x, indices, updates = node.input
    number, mask = origin_of(producers, updates, SAME_NUMBER), _mask_of(producers, indices)
    if mask is None or number not in numbers:
        return None
    return onnx.helper.make_node(FILL, [x, mask, number], list(node.output), name=node.name)


def _mask_of(producers: Producers, indices: str) -> str | None:
    """Return the mask whose true places are written at, None if it is none."""
    places = _places(producers, indices)
    return places.input[0] if places else None


def _places(producers: Producers, indices: str) -> onnx.NodeProto | None:
    """Return the NonZero whose places are the indices, or columns of which they are made."""
    joined = produced_by(producers, indices, "Concat")
    if joined is None:
        return places_of(producers, origin_of(producers, indices, SAME_PLACES))
    columns = [origin_of(producers, name, SAME_PLACES) for name in joined.input]
    parts = produced_by(producers, columns[0], "Split")
    if parts is None or list(parts.output) != columns:
        return None
    return places_of(producers, parts.input[0])
