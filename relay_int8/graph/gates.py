"""Which functions of one tensor the kernel before them computes from its sums, by their values.

Exporters write ``x * sigmoid(x)`` in many forms: a function is known by what it gives at some
hundred arguments, not by its operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from relay_int8.numerics.unary import UNARY
from schedules.spec import Activation

Array = np.ndarray
RealFunction = Callable[[Array], Array]

_ARGUMENTS = np.concatenate([np.linspace(-12, 12, 193), [-40.0, 40.0]])
_TOLERANCE = 1e-5
"""GELU's two forms are 5e-4 apart; constants that are float32 in a file move a value by 1e-6."""


def _hard_sigmoid(x: Array) -> Array:
    return np.clip(x / 6 + 0.5, 0, 1)


_FUNCTIONS: dict[Activation, RealFunction] = {
    "sigmoid": UNARY["sigmoid"],
    "steep_sigmoid": lambda x: UNARY["sigmoid"](2 * x),
    "hard_sigmoid": _hard_sigmoid,
    "swish": UNARY["nn.silu"],
    "hard_swish": lambda x: x * _hard_sigmoid(x),
    "quick_gelu": lambda x: x * UNARY["sigmoid"](1.702 * x),
    "gelu": UNARY["nn.gelu"],
    "gelu_tanh": UNARY["nn.gelu_tanh"],
}


class Known(NamedTuple):
    """A function as epilogues know it: ``scale * f + shift``, f being that of the name."""

    name: Activation
    scale: float = 1.0
    shift: float = 0.0


def activation_of(function: RealFunction) -> Known | None:
    """Return what epilogues compute for ``function`` of float64 arrays, or None.

    A positive scale and a shift follow from the values at -40 and 40, where all these functions
    have reached their limits or lines.
    """
    with np.errstate(all="ignore"):
        values = function(_ARGUMENTS)
        if np.shape(values) != _ARGUMENTS.shape or not np.isfinite(values).all():
            return None
        for name, known in _FUNCTIONS.items():
            plain = known(_ARGUMENTS)
            if _alike(values, plain):
                return Known(name)
            low, high = plain[-2:]
            scale = float((values[-1] - values[-2]) / (high - low))
            shift = float(values[-2] - scale * low)
            if scale > 0 and _alike(values / scale, plain + shift / scale):
                return Known(name, scale, shift if abs(shift) > _TOLERANCE * scale else 0.0)
    return None


def _alike(a: Array, b: Array) -> bool:
    return bool(np.allclose(a, b, rtol=_TOLERANCE, atol=_TOLERANCE))
