"""The paddings of ONNX's convolutions and pools: widths in the file, or the mode auto_pad."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Extents = Sequence[int]


def window_padding(
    attributes: Mapping[str, Any],
    sizes: Extents,
    kernel: Extents,
    strides: Extents,
    dilation: Extents,
) -> list[int]:
    """Return the widths before each axis, then after each, that a node asks for."""
    mode = attributes.get("auto_pad", b"NOTSET").decode()
    if mode == "NOTSET":
        return [int(width) for width in attributes.get("pads", (0,) * 2 * len(sizes))]
    return auto_pad(mode, sizes, kernel, strides, dilation)


def auto_pad(
    mode: str, sizes: Extents, kernel: Extents, strides: Extents, dilation: Extents
) -> list[int]:
    """Widths before each axis, then after each, as the ONNX standard's SAME modes define them."""
    if mode == "VALID":
        return [0] * 2 * len(sizes)
    before, after = [], []
    for size, k, stride, d in zip(sizes, kernel, strides, dilation, strict=True):
        total = max(0, (-(-size // stride) - 1) * stride + (k - 1) * d + 1 - size)
        small, large = total // 2, total - total // 2
        before.append(small if mode == "SAME_UPPER" else large)
        after.append(large if mode == "SAME_UPPER" else small)
    return [*before, *after]
