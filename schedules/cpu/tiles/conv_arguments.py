"""The buffers of a convolution in NCHW16c, and the constants as those buffers hold them.

x, r, y                : (n, c/16, h, w, 16)
w                      : as the kernel likes
bias, m, m_neg, ...    : (c/16, 16), zero past the last channel: those of ``PER_CHANNEL``
m_r, z, clamp          : as in ``schedules.spec``
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import constants, int64
from schedules.bodies.buffers import declare_arguments
from schedules.layout import NCHW16C
from schedules.spec import PER_CHANNEL, Conv2d
from schedules.template import Arrays, Layouts

LANES = NCHW16C.block


def blocked(spec: Conv2d, wanted: Layouts) -> Layouts:
    """Return the only layouts these kernels have: NCHW16c."""
    return Layouts(inputs=(NCHW16C,) * len(spec.tensors), output=NCHW16C)


def channel_blocks(values: np.ndarray) -> np.ndarray:
    """Return ``values`` (channels, ...) as (blocks, 16, ...), zero past the last channel."""
    rest = values.shape[1:]
    padded = np.pad(values, [(0, -len(values) % LANES), *((0, 0) for _ in rest)])
    return padded.reshape(-1, LANES, *rest)


def pack_with(weights: np.ndarray, params: Arrays) -> Arrays:
    """Return ``params`` as the buffers hold them, with ``weights`` in the place of w."""
    packed = {**params, "w": weights}
    return {
        name: channel_blocks(value) if name in PER_CHANNEL else value
        for name, value in packed.items()
    }


def declare(spec: Conv2d, weights: Sequence[int], dtype: str) -> dict[str, Any]:
    """Declare the arguments of the PrimFunc that is being built; return its buffers by name."""
    channels = (-(-spec.out_channels // LANES), LANES)
    shapes: dict[str, tuple[Sequence[Any], str]] = {
        **{name: (image(spec, name), spec.dtype(name)) for name in spec.tensors},
        "w": (weights, dtype),
        **constants(spec, channels),
        "y": (image(spec, "y"), spec.dtype("y")),
    }
    return declare_arguments(shapes)


def image(spec: Conv2d, name: str) -> list[Any]:
    """Return the physical shape of an activation."""
    return int64(NCHW16C.physical_shape(spec.shape(name)))


def clear_tail(spec: Conv2d, c: Expr, y: Expr) -> Expr:
    """Put zero into float lanes past the last channel: what x has there may be NaN."""
    if spec.y != "float32" or spec.out_channels % LANES == 0:
        return y
    channel = tirx.Ramp(c * LANES, T.int64(1), LANES)
    valid = channel < tirx.Broadcast(T.int64(spec.out_channels), LANES)
    return tirx.Select(valid, y, tirx.Broadcast(tirx.const(0, "float32"), LANES))
