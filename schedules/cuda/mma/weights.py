"""Weights in the order in which the threads of a warp multiply them by tensor cores.

A slab is 32 input channels of one tap of the window; a block is 32 output channels. Thread
(g, t) = (lane / 4, lane % 4) of a warp holds column g of the four mma of a block, and of it

    rows 4t .. 4t + 3 and 16 + 4t .. 16 + 4t + 3 of B      input channels of the same numbers
    column g of mma j                                       output channel 8 (g / 2) + 2j + g % 2

Columns may be in any order that y is read in: in this one a thread's sums are 8 contiguous
channels of a pixel of y. Of one slab and block memory holds (2, 32, 16) bytes: half of the mma,
lane, two mma of 8 bytes: what a warp reads at once is contiguous.
"""

from __future__ import annotations

import numpy as np

BLOCK = 32  # channels of a block of y, and of a slab of x
SLAB_BYTES = BLOCK * BLOCK


def pack_weights(w: np.ndarray) -> np.ndarray:
    """Return weights in the order above.

    Parameters
    ----------
    w
        int8 (output channels, input channels of a group, taps...).

    Returns
    -------
    int8 (blocks, slabs, 1024): slabs are counted by taps, then by channels. Zero past the last
    channels.
    """
    outputs, inputs = w.shape[:2]
    w = w.reshape(outputs, inputs, -1)
    w = np.pad(w, ((0, -outputs % BLOCK), (0, -inputs % BLOCK), (0, 0)))
    blocks, slabs, taps = w.shape[0] // BLOCK, w.shape[1] // BLOCK, w.shape[2]
    # output channel = (g / 2, half, mma of the half, g % 2), input channel = (half, t, byte)
    split = w.reshape(blocks, 4, 2, 2, 2, slabs, 2, 4, 4, taps)
    packed = split.transpose(0, 9, 5, 2, 1, 4, 7, 3, 6, 8)
    return np.ascontiguousarray(packed.reshape(blocks, taps * slabs, SLAB_BYTES))


def pack_channels(values: np.ndarray) -> np.ndarray:
    """Return ``values`` (channels,) as (blocks, 32), zero past the last channel."""
    return np.pad(values, (0, -len(values) % BLOCK)).reshape(-1, BLOCK)
