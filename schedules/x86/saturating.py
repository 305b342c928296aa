"""The dot product vpmaddubsw, which saturates sums of pairs; no kernel here uses it.

It multiplies u8 by s8 and adds neighbours in int16. Other runtimes use it on CPUs without VNNI.
Source: Intel Intrinsics Guide, _mm256_maddubs_epi16.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

NAME = "vpmaddubsw"
INT16_MAX, U8_MAX = 2**15 - 1, 2**8 - 1


def saturating_share(weights: npt.NDArray[Any]) -> float:
    """Return the share of weight pairs whose products by u8 may leave int16.

    ``weights`` is int8 (oc, k, ...); pairs are neighbours along k, which kernels multiply together,
    or along what follows where k is 1. A pair is dangerous if its positive, or its negative,
    weights add to more than 32767 / 255.
    """
    rows = weights.reshape(len(weights), weights.shape[1], -1).astype(np.int32)
    if rows.shape[1] == 1:
        rows = rows.transpose(0, 2, 1)
    even = rows.shape[1] // 2 * 2
    if not even:
        return 0.0
    pairs = rows[:, :even].reshape(len(rows), even // 2, 2, -1)
    high, low = (np.clip(pairs * sign, 0, None).sum(axis=2) for sign in (1, -1))
    dangerous: npt.NDArray[np.bool_] = (high * U8_MAX > INT16_MAX) | (low * U8_MAX > INT16_MAX + 1)
    return float(dangerous.mean())
