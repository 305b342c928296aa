"""The buffers of a convolution in NCHW16c, and the constants as those buffers hold them.

x, r, y                : (n, c/16, h, w, 16)
w                      : as the kernel likes
bias, m, m_neg, alpha  : (c/16, 16), zero past the last channel
m_r, z, clamp          : as in ``schedules.spec``
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.layout import NCHW16C
from schedules.spec import Conv2d
from schedules.template import Arrays, Layouts

LANES = NCHW16C.block
PER_CHANNEL = ("bias", "m", "m_neg", "alpha")


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


def fold_zero_point(spec: Conv2d, params: Arrays) -> Arrays:
    """Return ``params`` with the bias of a kernel that multiplies x as it is, padding included.

    The bias takes on ``-z_x * sum w``.
    """
    if spec.x == "float32":
        return params
    total = params["w"].sum(axis=(1, 2, 3), dtype=np.int64)
    return {**params, "bias": (params["bias"] - params["z"][0] * total).astype(np.int32)}


def declare(spec: Conv2d, weights: Sequence[int], dtype: str) -> dict[str, Any]:
    """Declare the arguments of the PrimFunc that is being built; return its buffers by name."""
    names = (*spec.tensors, *spec.params, "y")
    return {name: _declare(spec, name, weights, dtype) for name in names}


def _declare(spec: Conv2d, name: str, weights: Sequence[int], weight_dtype: str) -> Any:
    if name in (*spec.tensors, "y"):
        return T.arg(name, T.buffer(image(spec, name), spec.dtype(name), layout=None))
    channels = (-(-spec.out_channels // LANES), LANES)
    shape, dtype = {
        "w": (weights, weight_dtype),
        "bias": (channels, "float32" if spec.x == "float32" else "int32"),
        "z": ((3,), "int32"),
        "m_r": ((1,), "float32"),
        "clamp": ((2,), "float32"),
    }.get(name, (channels, "float32"))
    return T.arg(name, T.buffer(int64(shape), dtype, layout=None))


def image(spec: Conv2d, name: str) -> list[Any]:
    """Return the physical shape of an activation."""
    return int64(NCHW16C.physical_shape(spec.shape(name)))


def int64(extents: Sequence[Any]) -> list[Any]:
    """Return ``extents`` as Relax wants them."""
    return [T.int64(extent) if isinstance(extent, int) else extent for extent in extents]


def ramp(count: int) -> Expr:
    """Return the index of the first ``count`` elements."""
    return tirx.Ramp(T.int64(0), T.int64(1), count)


def spatial(names: str, extents: Sequence[Any], loops: Any) -> list[Any]:
    """Declare the axes of the block that is being built."""
    return [
        IRBuilder.name(name, T.axis.spatial((T.int64(0), extent), loop, "int64"))
        for name, extent, loop in zip(names.split(), extents, loops, strict=True)
    ]


def clear_tail(spec: Conv2d, c: Expr, y: Expr) -> Expr:
    """Put zero into float lanes past the last channel: what x has there may be NaN."""
    if spec.y != "float32" or spec.out_channels % LANES == 0:
        return y
    channel = tirx.Ramp(c * LANES, T.int64(1), LANES)
    valid = channel < tirx.Broadcast(T.int64(spec.out_channels), LANES)
    return tirx.Select(valid, y, tirx.Broadcast(tirx.const(0, "float32"), LANES))
