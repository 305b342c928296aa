"""Functions that make kernels of operators: specs, constants, bounds of their results."""

from __future__ import annotations

from typing import Final

import numpy as np

from relay_int8.graph.group import Clip, Leaky, Smooth
from relay_int8.numerics.qparams import QParams
from schedules.spec import Spec

Constants = dict[str, np.ndarray]
Kernel = tuple[Spec, Constants]
F32: Final = "float32"


def zero_points(*params: QParams) -> np.ndarray:
    """Return int32 (len(params),)."""
    return np.array([item.zero_point for item in params], np.int32)


def clamp_steps(activation: Clip | Leaky | Smooth | None, y: QParams | None) -> np.ndarray:
    """Return float32 (2,): bounds of ``q - z``, or of the float result where ``y`` is None."""
    bounds = clamp(activation)
    if y is None:
        return bounds.astype(np.float32)
    steps = np.rint(bounds / np.float64(y.scale))
    return np.clip(steps, *y.clamp).astype(np.float32)


def clamp(activation: Clip | Leaky | Smooth | None) -> np.ndarray:
    """Return float64 (2,): the bounds of a clip, infinite without one."""
    clip = activation if isinstance(activation, Clip) else Clip(-np.inf, np.inf)
    return np.array([clip.low, clip.high])
