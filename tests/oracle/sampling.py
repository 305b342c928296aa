"""What the taps of a deformable convolution see, written from docs/design.md.

Pixels are float32: reals of a float network, or whole steps of an integer one. The image gets a
frame of one zero on all sides, so that every corner of a place that counts lies inside.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.arithmetic import Array, fma

Pair = tuple[int, int]


def sample2d(x: Array, offset: Array, mask: Array | None = None, **at: Any) -> Array:
    """Return the columns (n, groups * taps * channels, oh, ow); ``m`` is their multiplier, if any."""
    n, channels, height, width = x.shape
    kernel, parts, groups = at["kernel"], at["parts"], at["groups"]
    taps, (oh, ow) = kernel[0] * kernel[1], offset.shape[2:]
    framed = np.pad(x.astype(np.float32), ((0, 0), (0, 0), (1, 1), (1, 1)))
    y = np.zeros((n, groups, taps, channels // groups, oh, ow), np.float32)
    by_channel = y.transpose(0, 1, 3, 2, 4, 5)  # a view: (n, group, channel, tap, oh, ow)
    for image, part, tap in np.ndindex(n, parts, taps):
        first = part * taps + tap
        base = np.indices((oh, ow)).reshape(2, oh, ow).astype(np.int64)
        for axis, step in enumerate((tap // kernel[1], tap % kernel[1])):
            base[axis] *= at["strides"][axis]
            base[axis] += step * at["dilation"][axis] - at["padding"][axis]
        moved = [
            _seen(base[axis].astype(np.float32) + offset[image, 2 * first + axis], size, at["rim"])
            for axis, size in enumerate((height, width))
        ]
        factors = [] if mask is None else [mask[image, first]]
        factors += [at["m"]] if "m" in at else []
        inside = range(part * channels // parts, (part + 1) * channels // parts)
        total = np.zeros((len(inside), oh, ow), np.float32)
        for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
            (row, a), (col, b) = _corner(moved[0], down), _corner(moved[1], right)
            weight = a * b
            for factor in factors:
                weight = weight * factor
            corner = framed[image][inside.start : inside.stop, row, col]
            total = fma(corner, np.broadcast_to(weight, total.shape), total)
        for place, channel in enumerate(inside):
            by_channel[image, *divmod(channel, channels // groups), tap] = total[place]
    return y.reshape(n, -1, oh, ow)


def _seen(p: Array, size: int, rim: str) -> Array:
    """Return the coordinates, -1 for those that see nothing."""
    if rim == "edge":
        return np.where((p >= 0) & (p < size), np.minimum(p, np.float32(size - 1)), np.float32(-1))
    return np.where((p > -1) & (p < size), p, np.float32(-1))


def _corner(p: Array, side: int) -> tuple[Array, Array]:
    """Return index in the framed image, and weight."""
    floor = np.floor(p)
    share = p - floor
    return floor.astype(np.int64) + 1 + side, share if side else np.float32(1) - share
