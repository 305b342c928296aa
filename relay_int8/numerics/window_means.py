"""Adaptive average pooling as a product with constant weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def mean_weights(size: int, wanted: int) -> npt.NDArray[Any]:
    """Return weights of adaptive average pooling: means of windows, float32 (wanted, size).

    Window i is that from ``floor(i * size / wanted)`` to ``ceil((i + 1) * size / wanted)``.
    """
    i, pixels = np.arange(wanted)[:, None], np.arange(size)
    begins, ends = i * size // wanted, -(-(i + 1) * size // wanted)
    parts = (begins <= pixels) & (pixels < ends)
    shares: npt.NDArray[Any] = (parts / parts.sum(axis=1, keepdims=True)).astype("float32")
    return shares
