"""The two pixels and weights of each output position of a bilinear resize, along one axis.

The position of output i on an axis of n input and m output pixels, before it is moved into the
image, [0, n - 1] (as ONNX and PyTorch have it):

===================  =========================================
half_pixel           ``((2 * i + 1) * n - m) / (2 * m)``
pytorch_half_pixel   the same, and 0 where m is 1
align_corners        ``i * (n - 1) / (m - 1)``, 0 where m is 1
asymmetric           ``i * n / m``
===================  =========================================

Integers throughout: a position is a fraction, and its part after the point is rounded once, half to
even, to the units of a weight.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from schedules.spec.interpolating import WEIGHT_BITS

COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
UNIT = 1 << WEIGHT_BITS


def axis_taps(size: int, out: int, coordinates: str) -> npt.NDArray[np.int32]:
    """Return int32 (3 * out,): all first pixels, all second ones, the weights of the second.

    Parameters
    ----------
    size, out
        Extent of the axis before and after.
    coordinates
        One of ``COORDINATES``.
    """
    pairs = axis_pairs(size, out, coordinates)
    weights = (round(share * UNIT) for _, _, share in pairs)  # of a Fraction, half to even
    taps = [
        (first, second, weight) for (first, second, _), weight in zip(pairs, weights, strict=True)
    ]
    return np.array(taps, np.int32).T.reshape(-1)


def axis_lerps(
    size: int, out: int, coordinates: str
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Return int32 (2 * out,): all first pixels, all second ones; float32 weights of the second."""
    first, second, shares = zip(*axis_pairs(size, out, coordinates), strict=True)
    return np.array([first, second], np.int32).reshape(-1), np.array(shares, np.float32)


def axis_pairs(size: int, out: int, coordinates: str) -> list[tuple[int, int, Fraction]]:
    """Return for each output pixel the two it lies between, and the exact weight of the second."""
    pairs = []
    for i in range(out):
        position = min(max(_position(i, size, out, coordinates), Fraction(0)), Fraction(size - 1))
        first = int(position)
        pairs.append((first, min(first + 1, size - 1), position - first))
    return pairs


def _position(i: int, size: int, out: int, coordinates: str) -> Fraction:
    if coordinates == "asymmetric":
        return Fraction(i * size, out)
    if coordinates == "align_corners":
        return Fraction(i * (size - 1), max(out - 1, 1))
    if coordinates == "pytorch_half_pixel" and out == 1:
        return Fraction(0)
    return Fraction((2 * i + 1) * size - out, 2 * out)
