"""The functions that epilogues compute from sums, by series, as docs/design.md has them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tests.oracle.arithmetic import Array, fma

LOGISTIC = (0.9171726, 0.05800393, -0.01322916, -0.002599533, -0.0001385264)
SERIES = {
    "sigmoid": (10.0, LOGISTIC, 1.0),
    "steep_sigmoid": (10.0, LOGISTIC, 2.0),
    "swish": (10.0, LOGISTIC, 1.0),
    "quick_gelu": (10.0, LOGISTIC, 1.702),
    "hard_sigmoid": (3.0, (0.5, 1 / 6), 1.0),
    "hard_swish": (3.0, (0.5, 1 / 6), 1.0),
    "gelu": (4.5, (0.9169174, 0.08957108, -0.03767906, -0.004578493), 1.0),
    "gelu_tanh": (4.75, (0.9169434, 0.09004987, -0.03656391, -0.004089356), 1.0),
}
"""Name -> limit, coefficients from the lowest power on, and what x is multiplied by before."""


def gate_parts(function: Callable[[Array], Array]) -> tuple[str, float, float] | None:
    """Return name, a and b of a function ``a * f + b`` of float64, known by its values, or None.

    a, which is positive, and b follow from -40 and 40, where each f is constant or a line.
    """
    x = np.array([*np.linspace(-10, 10, 81), -40, 40]).reshape(-1, 1, 1, 1)
    with np.errstate(all="ignore"):
        values = np.asarray(function(x), np.float64).reshape(-1)
        if (
            values.shape != x.ravel().shape or not np.isfinite(values).all()
        ):  # it broadcasts, or is no gate
            return None
        known = {name: np.array([real(v) for v in x.ravel()]) for name, real in REALS.items()}
    for name, y in known.items():
        if np.abs(y - values).max() < 1e-4:
            return name, 1.0, 0.0
        a = float((values[-1] - values[-2]) / (y[-1] - y[-2]))
        b = float(values[-2] - a * y[-2])
        if a > 0 and np.abs(a * y + b - values).max() < 1e-4 * a:
            return name, a, b if abs(b) > 1e-5 * a else 0.0
    return None


def gated(name: str, x: Array) -> Array:
    """Return the function of float32, bit for bit."""
    limit, series, factor = SERIES[name]
    away = np.abs(x)
    u = -np.minimum(away, np.float32(limit / factor))
    root = np.zeros_like(u)
    for k in range(len(series) - 1, -1, -1):
        root = fma(root, u, np.asarray(np.float32(series[k] * factor**k)))
    if name.startswith("hard"):
        pair = root, np.ones_like(root)
    else:
        half = (root * root) ** 2
        pair = half, half
    if name.endswith("sigmoid"):
        return np.where(x < 0, pair[0] * pair[1], fma(-pair[0], pair[1], np.float32(1)))
    return fma(-away, pair[0] * pair[1], np.maximum(x, np.float32(0)))


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _sixth(x: float) -> float:
    return min(max(x / 6 + 0.5, 0), 1)


REALS: dict[str, Callable[[float], float]] = {
    "sigmoid": _logistic,
    "steep_sigmoid": lambda x: _logistic(2 * x),
    "swish": lambda x: x * _logistic(x),
    "quick_gelu": lambda x: x * _logistic(1.702 * x),
    "hard_sigmoid": _sixth,
    "hard_swish": lambda x: x * _sixth(x),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + math.tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x**3))) / 2,
}
