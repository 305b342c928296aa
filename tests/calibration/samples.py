"""Magnitudes of tensors of the kinds that networks have, seeded."""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

_DRAWN: dict[str, Callable[[Generator], np.ndarray]] = {
    "normal": lambda rng: np.abs(rng.normal(size=4000)),
    "laplace": lambda rng: np.abs(rng.laplace(size=4000)),
    "relu": lambda rng: np.maximum(rng.normal(size=4000), 0),
    "heavy tail": lambda rng: np.abs(rng.standard_t(2, size=4000)),
    "two humps": lambda rng: np.concatenate([rng.normal(1, 0.1, 2000), rng.normal(6, 0.2, 90)]),
    "integers": lambda rng: rng.integers(0, 9, 4000).astype(float),
}
SAMPLES = list(_DRAWN)


def magnitudes(name: str, seed: int = 1) -> np.ndarray:
    """Return one of ``SAMPLES``."""
    return _DRAWN[name](np.random.default_rng(seed))
