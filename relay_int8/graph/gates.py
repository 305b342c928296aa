"""Which functions of one tensor the kernel before them computes from its sums, by their values.

Exporters write ``x * sigmoid(x)`` in many forms: a function is known by what it gives at some
hundred arguments, not by its operators.
"""

from __future__ import annotations

from collections.abc import Callable

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
    "hard_sigmoid": _hard_sigmoid,
    "swish": UNARY["nn.silu"],
    "hard_swish": lambda x: x * _hard_sigmoid(x),
    "quick_gelu": lambda x: x * UNARY["sigmoid"](1.702 * x),
    "gelu": UNARY["nn.gelu"],
    "gelu_tanh": UNARY["nn.gelu_tanh"],
}


def activation_of(function: RealFunction) -> Activation | None:
    """Return the name under which epilogues know ``function`` of float64 arrays, or None."""
    with np.errstate(all="ignore"):
        values = function(_ARGUMENTS)
        for name, known in _FUNCTIONS.items():
            if np.allclose(values, known(_ARGUMENTS), rtol=_TOLERANCE, atol=_TOLERANCE):
                return name
    return None
