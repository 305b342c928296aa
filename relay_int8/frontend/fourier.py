"""The discrete Fourier transform as a matrix."""

from __future__ import annotations

import numpy as np


def transform_weights(size: int, count: int, parts: int, inverse: bool) -> np.ndarray:
    """Return the matrix (size * parts, count * 2) of a discrete Fourier transform, float32.

    Rows are the real (and imaginary) parts of the values, columns those of ``count`` frequencies.
    """
    turns = np.outer(np.arange(size), np.arange(count)) % size / size
    angles = 2 * np.pi * turns * (1 if inverse else -1)
    c, s = np.cos(angles), np.sin(angles)
    real = np.stack([c, s], axis=-1)  # of a real value: to the real and the imaginary part
    imaginary = np.stack([-s, c], axis=-1)
    whole = np.stack([real, imaginary][:parts], axis=1) / (size if inverse else 1)
    return whole.reshape(size * parts, count * 2).astype(np.float32)
