"""Means of a tensor's channels over any number of images, the same bits in whatever order.

What one image gives, a float32 mean per channel, is ``mantissa * 2**exponent`` with integers. They
are summed as integers, those of nearby exponents in one int64 slot; the mean is rounded once, at
the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
LEAST_EXPONENT = -149  # exponent of the smallest float32 above zero
MANTISSA_BITS = 24
SLOT_BITS = 16  # exponents of one slot: 24 + 15 bits and a sign, so 2**24 images fit int64
SLOTS = 18


@dataclass(frozen=True, eq=False)
class ChannelMeans:
    """Exact sums per channel.

    Parameters
    ----------
    slots
        int64 (channels, 18): the sum is ``slots[:, k] * 2**(16 * k - 149)`` over all k.
    counts
        int64 (channels,): how many values were finite and went in.
    """

    slots: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, means: Array) -> ChannelMeans:
        """Return the sums of one image: float32 (channels,), what is not finite left out."""
        finite = np.isfinite(means)
        fraction, exponent = np.frexp(np.where(finite, means, 0).astype(np.float64))
        # Multiples of 2**-149, float32's finest step, also where the exponent is below it.
        position = np.maximum(exponent - MANTISSA_BITS - LEAST_EXPONENT, 0)
        mantissa = np.ldexp(fraction, exponent - LEAST_EXPONENT - position).astype(np.int64)
        slots = np.zeros((len(means), SLOTS), np.int64)
        rows = np.arange(len(means))
        slots[rows, position // SLOT_BITS] = mantissa << (position % SLOT_BITS)
        return cls(slots, finite.astype(np.int64))

    def merge(self, other: ChannelMeans) -> ChannelMeans:
        """Return the sums of both."""
        return ChannelMeans(self.slots + other.slots, self.counts + other.counts)

    def mean(self) -> npt.NDArray[np.float32]:
        """Return float32 (channels,); 0 for a channel without a finite value."""
        sums = [
            sum(part << (SLOT_BITS * slot) for slot, part in enumerate(row) if part)
            for row in self.slots.tolist()
        ]
        # Python rounds a quotient of whole numbers once, however large they are.
        means = [
            math.ldexp(total / count, LEAST_EXPONENT) if count else 0.0
            for total, count in zip(sums, self.counts.tolist(), strict=True)
        ]
        return np.array(means, np.float32)
