"""A manifest's entry of an array of weights: where it lies, its shape and type."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class WeightEntry:
    """An array among the weights of an artifact.

    Parameters
    ----------
    offset
        Byte of the weights where it begins.
    shape, dtype
        Of the array, whose elements lie in the order of C, without gaps.
    """

    offset: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def end(self) -> int:
        """Byte of the weights behind its last."""
        return self.offset + math.prod(self.shape) * np.dtype(self.dtype).itemsize
