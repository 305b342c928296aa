"""Unary functions of Relax in float64: what a 256-entry table is computed from."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: np.ndarray) -> np.ndarray:
    y: np.ndarray = 1.0 / (1.0 + np.exp(-x))
    return y


def _gelu(x: np.ndarray) -> np.ndarray:
    y: np.ndarray = 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0)))
    return y


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "cos": np.cos,
    "erf": _erf,
    "exp": np.exp,
    "floor": np.floor,
    "log": np.log,
    "negative": np.negative,
    "nn.gelu": _gelu,
    "nn.gelu_tanh": _gelu_tanh,
    "nn.selu": lambda x: (
        1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))
    ),
    "nn.silu": lambda x: x * _sigmoid(x),
    "nn.softplus": lambda x: np.logaddexp(x, 0),
    "round": np.rint,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sigmoid": _sigmoid,
    "sign": np.sign,
    "sin": np.sin,
    "sqrt": np.sqrt,
    "square": np.square,
    "tanh": np.tanh,
}
"""Relax operator (without ``relax.``) -> the function on float64 arrays."""

NON_NEGATIVE = ("abs", "exp", "nn.softplus", "rsqrt", "sigmoid", "sqrt", "square")
"""Those whose values are never negative."""
