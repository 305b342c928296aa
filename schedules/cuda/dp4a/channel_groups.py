"""Groups of channels as words of four: neighbouring groups are merged until they fill words.

A word of x holds four neighbouring channels, whatever groups they belong to. Groups of c channels
are merged, as many as make both their inputs and their outputs multiples of four; the weights of
merged groups are block diagonal, zero where a channel is of another group:

    depthwise          4 groups of 1 -> 1    one word in, four channels out, a diagonal
    ResNeXt 32x4d      1 group of 4 -> 4     nothing is merged, nothing is zero
    groups of 6        2 groups of 6 -> 6    three words in, half of the weights zero

One dp4a for each word and output is never more than one product for each channel of the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, lcm

import numpy as np

from schedules.cuda.dp4a.intrin import LANES
from schedules.spec import Conv2d


def roomy(extent: int) -> int:
    """Return the next number whose prime factors are at most 7, so that tiles divide it."""
    return next(n for n in range(extent, 2 * extent + 1) if _is_smooth(n))


def _is_smooth(number: int) -> bool:
    for prime in (2, 3, 5, 7):
        while number % prime == 0:
            number //= prime
    return number == 1


@dataclass(frozen=True, kw_only=True)
class ChannelGroups:
    """``count`` merged groups, each ``inputs`` words of x and ``outputs`` words of y.

    ``merged`` of the groups of the layer make one. Groups, and outputs where there is one group,
    are rounded up, so that tiles divide them.
    """

    count: int
    inputs: int
    outputs: int
    merged: int

    @classmethod
    def of(cls, spec: Conv2d) -> ChannelGroups:
        """Return those of a convolution."""
        inputs, outputs = spec.in_channels // spec.groups, spec.out_channels // spec.groups
        if spec.groups == 1:
            return cls(
                count=1, inputs=-(-inputs // LANES), outputs=roomy(-(-outputs // LANES)), merged=1
            )
        merged = lcm(LANES // gcd(LANES, inputs), LANES // gcd(LANES, outputs))
        return cls(
            count=roomy(-(-spec.groups // merged)),
            inputs=merged * inputs // LANES,
            outputs=merged * outputs // LANES,
            merged=merged,
        )

    @property
    def blocks(self) -> int:
        """Words of output channels, with those that are not written."""
        return self.count * self.outputs

    def weights(self, spec: Conv2d, w: np.ndarray) -> np.ndarray:
        """Return w (oc, ic/groups, kh, kw) as (blocks, inputs, kh, kw, 4 oc, 4 ic)."""
        grouped = w.reshape(spec.groups, -1, *w.shape[1:])  # groups, oc, ic, kh, kw
        grouped = np.pad(grouped, [(0, self.count * self.merged - spec.groups), *[(0, 0)] * 4])
        _, outputs, inputs = grouped.shape[:3]
        all_of = (self.count, self.outputs * LANES, self.inputs * LANES)
        dense = np.zeros((*all_of, *spec.kernel), w.dtype)
        for j in range(self.merged):
            rows, cols = slice(j * outputs, (j + 1) * outputs), slice(j * inputs, (j + 1) * inputs)
            dense[:, rows, cols] = grouped[j :: self.merged]
        words = dense.reshape(self.blocks, LANES, self.inputs, LANES, *spec.kernel)
        return np.ascontiguousarray(words.transpose(0, 2, 4, 5, 1, 3))
