"""Images that every computer makes alike, to the bit: from raw bits of a generator, by shifts.

NumPy promises the bits of PCG64 for ever, but not what its distributions make of them.
"""

from __future__ import annotations

import numpy as np

CALIBRATION_SEED, RUN_SEED = 1, 2
COARSE = 8


def pictures(count: int, size: int, seed: int = RUN_SEED) -> np.ndarray:
    """Return float32 (count, 3, size, size), smooth as photographs are, plus noise.

    The first images are the same however many are asked for.
    """
    images = np.empty((count, 3, size, size), np.float32)
    places = np.arange(size) * COARSE // size
    for number in range(count):
        bits = np.random.PCG64(np.random.SeedSequence((seed, number)))
        coarse = _uniform(bits, (3, COARSE, COARSE))
        images[number] = coarse[:, places][:, :, places] + _uniform(bits, (3, size, size)) / 4
    return images


def _uniform(bits: np.random.PCG64, shape: tuple[int, ...]) -> np.ndarray:
    """Return multiples of 1/64 in [-2, 2), exact in float32."""
    count = int(np.prod(shape))
    raw = np.asarray(bits.random_raw(-(-count // 8)), "<u8").view(np.uint8)[:count]
    return (raw.astype(np.float32).reshape(shape) - 128) / 64
