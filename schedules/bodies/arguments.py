"""The constants of a convolution or a dense layer as arguments of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.tirx.script import builder as T

from schedules.spec import PER_CHANNEL, Conv2d, Dense
from schedules.template import Arrays


def fold_zero_point(spec: Conv2d | Dense, params: Arrays) -> Arrays:
    """Return ``params`` with the bias of a kernel that multiplies x as it is, padding included.

    The bias takes on ``-z_x * sum w``.
    """
    if spec.x == "float32":
        return params
    w = params["w"]
    total = w.sum(axis=tuple(range(1, w.ndim)), dtype=np.int64)
    return {**params, "bias": (params["bias"] - params["z"][0] * total).astype(np.int32)}


def constants(
    spec: Conv2d | Dense, channels: Sequence[int]
) -> dict[str, tuple[Sequence[int], str]]:
    """Return shape and type of each constant but the weights; ``channels`` of ``PER_CHANNEL``."""
    lengths = {"z": 3, "m_r": 1, "clamp": 2}
    return {
        name: (channels if name in PER_CHANNEL else (lengths[name],), spec.constant_dtype(name))
        for name in spec.params
        if name != "w"
    }


def int64(extents: Sequence[Any]) -> list[Any]:
    """Return ``extents`` as Relax wants them."""
    return [T.int64(extent) if isinstance(extent, int) else extent for extent in extents]
