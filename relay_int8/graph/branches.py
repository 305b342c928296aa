"""Sums of convolutions, and of tensors times constants, as one convolution of each tensor.

    x + a * (f - x)  =  a * f + (1 - a) * x

Which of two ways to compute such a sum rounds less is estimated from the weights alone, for inputs
of variance 1 that do not correlate: a byte spans eight deviations of what it holds, and a weight
is off by up to half of a 127th of the largest one of its channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from tvm import relax

Array = np.ndarray[Any, np.dtype[Any]]
Pair = tuple[int, int]

TENSOR_ROUNDING = (8 / 255) ** 2 / 12
"""Variance of rounding a tensor to a byte, for one of variance 1."""
WEIGHT_ROUNDING = (1 / 127) ** 2 / 12
"""Variance of rounding a weight to a byte, where the largest one of its channel is 1."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """A convolution without bias; ``weights`` are float64 (oc, ic / groups, kh, kw).

    Tap t of output position i reads position ``i * stride + (start + t) * dilation``.
    """

    weights: Array
    groups: int
    start: Pair = (0, 0)
    strides: Pair = (1, 1)
    dilation: Pair = (1, 1)

    @classmethod
    def identity(cls, channels: int) -> Window:
        """Return the convolution that changes nothing."""
        return cls(weights=np.ones((channels, 1, 1, 1)), groups=channels)

    @property
    def is_factor(self) -> bool:
        """Whether it multiplies each channel by a number."""
        alone = self.weights.shape == (self.groups, 1, 1, 1)
        return alone and self.start == (0, 0) and self.strides == (1, 1)

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        return self.is_factor and bool((self.weights == 1).all())

    @property
    def power(self) -> Array:
        """(oc,): variance of its result."""
        power: Array = np.square(self.weights).sum((1, 2, 3))
        return power

    @property
    def weight_noise(self) -> Array:
        """(oc,): variance of what rounding the weights adds; a weight alone is exact."""
        taps = self.weights[0].size
        largest: Array = np.abs(self.weights).max((1, 2, 3))
        return largest**2 * (taps * WEIGHT_ROUNDING if taps > 1 else 0.0)

    def scaled(self, factor: Array) -> Window:
        """Return it times a number of each output channel."""
        return replace(self, weights=self.weights * factor[:, None, None, None])

    def plus(self, other: Window) -> Window | None:
        """Return the convolution that gives the sum of both, or None where there is none."""
        groups = other.groups if self.is_factor else self.groups
        a, b = self._grouped(groups), other._grouped(groups)
        if a is None or b is None or a.strides != b.strides:
            return None
        if a.weights.shape[:2] != b.weights.shape[:2]:
            return None
        dilation = _common_dilation(0, a, b), _common_dilation(1, a, b)
        if not all(dilation):
            return None
        start = min(a.start[0], b.start[0]), min(a.start[1], b.start[1])
        end = max(a._end(0), b._end(0)), max(a._end(1), b._end(1))
        weights = np.zeros((*a.weights.shape[:2], end[0] - start[0], end[1] - start[1]))
        for each in (a, b):
            top, left = each.start[0] - start[0], each.start[1] - start[1]
            height, width = each.weights.shape[2:]
            weights[:, :, top : top + height, left : left + width] += each.weights
        return replace(a, weights=weights, start=start, dilation=dilation)

    def _end(self, axis: int) -> int:
        return self.start[axis] + int(self.weights.shape[2 + axis])

    def _grouped(self, groups: int) -> Window | None:
        """Return it as a convolution of so many groups of channels, or None."""
        if self.groups == groups:
            return self
        channels = len(self.weights)
        if not self.is_factor or channels % groups:
            return None
        size = channels // groups
        weights = np.zeros((channels, size, 1, 1))
        weights[np.arange(channels), np.arange(channels) % size] = self.weights[:, 0]
        return replace(self, weights=weights, groups=groups)


def _common_dilation(axis: int, a: Window, b: Window) -> int:
    """Return the dilation along an axis that both can have, or 0."""
    if a.dilation[axis] == b.dilation[axis]:
        return a.dilation[axis]
    for one, other in ((a, b), (b, a)):
        if one.weights.shape[2 + axis] == 1 and one.start[axis] == 0:
            return other.dilation[axis]
    return 0


Kind = Literal["tensor", "layer", "scaled", "sum"]


@dataclass(frozen=True, kw_only=True)
class WeightedSum:
    """``sum of windows over tensors + shift``, and what computing it as written rounds.

    Parameters
    ----------
    windows
        Tensor -> the convolution of it.
    shift
        float64 (oc,).
    noise
        (oc,): variance of all rounding, but for that of the result.
    kind
        A tensor that is there, a convolution (which takes on what is added to it), a tensor times
        numbers, or anything else.
    repeats
        Whether a tensor was read more than once.
    """

    windows: Mapping[relax.Var, Window]
    shift: Array
    noise: Array
    kind: Kind
    repeats: bool = False

    @classmethod
    def of(cls, var: relax.Var, window: Window, kind: Kind) -> WeightedSum:
        """Return the sum of a tensor itself, or of a convolution of one."""
        shift = np.zeros(len(window.weights))
        return cls(windows={var: window}, shift=shift, noise=window.weight_noise, kind=kind)

    @property
    def rounding(self) -> Array:
        """(oc,): variance of what making the result a byte adds."""
        rounding = 0.0 if self.kind == "tensor" else TENSOR_ROUNDING
        power: Array = np.sum([window.power for window in self.windows.values()], axis=0)
        return rounding * power

    @property
    def stored_noise(self) -> Array:
        """(oc,): variance of all rounding once the result is a byte."""
        return self.noise + self.rounding

    def scaled(self, factor: Array, shift: Array) -> WeightedSum:
        """Return ``factor * self + shift``."""
        folds = self.kind in ("layer", "scaled")
        return replace(
            self,
            windows={var: window.scaled(factor) for var, window in self.windows.items()},
            shift=self.shift * factor + shift,
            noise=(self.noise if folds else self.stored_noise) * factor**2,
            kind=self.kind if folds else "scaled",
        )

    def minus(self, other: WeightedSum) -> WeightedSum | None:
        """Return ``self - other``: no convolution takes on what is subtracted."""
        ones = np.ones_like(self.shift)
        windows = {var: window.scaled(-ones) for var, window in other.windows.items()}
        total = self.plus(replace(other, windows=windows, shift=-other.shift))
        return total and replace(total, noise=self.stored_noise + other.stored_noise)

    def plus(self, other: WeightedSum) -> WeightedSum | None:
        """Return ``self + other``; None where both read a tensor and no convolution joins that."""
        windows = dict(self.windows)
        for var, window in other.windows.items():
            joined = windows[var].plus(window) if var in windows else window
            if joined is None:
                return None
            windows[var] = joined
        is_shorter = len(windows) < len(self.windows) + len(other.windows)
        return WeightedSum(
            windows=windows,
            shift=self.shift + other.shift,
            noise=_added_noise(self, other),
            kind="sum",
            repeats=is_shorter or self.repeats or other.repeats,
        )

    def rewritten(self) -> WeightedSum | None:
        """Return it as one or two convolutions would give it; None if it takes more."""
        if len(self.windows) > 2:
            return None
        terms = [WeightedSum.of(var, each, _kind(each)) for var, each in self.windows.items()]
        noise = terms[0].noise if len(terms) == 1 else _added_noise(*terms)
        kind = terms[0].kind if len(terms) == 1 else "sum"
        return replace(self, noise=noise, kind=kind, repeats=False)


def _kind(window: Window) -> Kind:
    if window.is_identity:
        return "tensor"
    return "scaled" if window.is_factor else "layer"


def _added_noise(a: WeightedSum, b: WeightedSum) -> Array:
    """Return what a sum's operands round; one that is a convolution takes the other one on."""
    layers = [each for each in (a, b) if each.kind == "layer"]
    taking = max(layers, key=lambda each: float(each.rounding.sum()), default=None)
    rounding = [each.rounding for each in (a, b) if each is not taking]
    noise: Array = np.sum([a.noise, b.noise, *rounding], axis=0)
    return noise
