"""Means of a tensor's channels, and what they are called."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

LAST_AXIS = ":last axis"
"""Follows a tensor's name in that of its means where channels are the last axis of four."""


def averaged(means: str) -> tuple[str, bool]:
    """Return the tensor that ``means`` are of, and whether its channels are the last axis of four.

    A product reads the channels of a tensor along its last axis, a convolution those of an image
    along axis 1; a tensor of four axes may have both kinds of readers.
    """
    return means.removesuffix(LAST_AXIS), means.endswith(LAST_AXIS)


def channel_means(values: npt.NDArray[Any], *, last: bool = False) -> npt.NDArray[np.float32]:
    """Return float32 (channels,): of images (n, c, h, w) by c, of other shapes by the last axis.

    With ``last`` by the last axis whatever the shape. The float32 sum ascends over the positions,
    as a kernel's does.
    """
    if values.ndim == 4 and not last:
        rows = np.moveaxis(values, 1, 0).reshape(values.shape[1], -1)
    else:
        rows = _columns(values)
    sums = np.cumsum(rows, axis=1, dtype=np.float32)[:, -1]
    means: npt.NDArray[np.float32] = sums * np.float32(1.0 / rows.shape[1])
    return means


def _columns(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.reshape(-1, values.shape[-1]).T
