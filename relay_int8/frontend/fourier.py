"""The discrete Fourier transform as a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
ZERO = 1e-12  # what rounding leaves of a cosine or sine that is zero


def waves(size: int, count: int) -> tuple[Array, Array]:
    """Return cosine and sine (size, count) of each value's turn at each frequency, float64.

    Zeros are exact, so that the parts of a spectrum that are zero have an angle without noise.
    """
    turns = np.outer(np.arange(size), np.arange(count)) % size / size
    angles = 2 * np.pi * turns
    c, s = (np.where(np.abs(wave) < ZERO, 0.0, wave) for wave in (np.cos(angles), np.sin(angles)))
    return c, s


def transform_weights(size: int, count: int, parts: int, inverse: bool) -> np.ndarray:
    """Return the matrix (size * parts, count * 2) of a discrete Fourier transform, float32.

    Rows are the real (and imaginary) parts of the values, columns those of ``count`` frequencies.
    """
    c, s = waves(size, count)
    s = s if inverse else 0.0 - s
    real = np.stack([c, s], axis=-1)  # of a real value: to the real and the imaginary part
    imaginary = np.stack([-s, c], axis=-1)
    whole = np.stack([real, imaginary][:parts], axis=1) / (size if inverse else 1)
    return whole.reshape(size * parts, count * 2).astype(np.float32)


def inverse_weights(size: int) -> Array:
    """Return the matrix (2 * frequencies, size) from the parts of half a spectrum to its reals."""
    count = size // 2 + 1
    c, s = (wave[:count] for wave in waves(size, size))
    twice = np.full((count, 1), 2.0)
    twice[0] = 1
    if size % 2 == 0:
        twice[-1] = 1
    return np.concatenate([c * twice, -s * twice])
