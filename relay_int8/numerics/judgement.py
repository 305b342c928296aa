"""Whether one way to quantize a network is better than another one, or only on these images.

The ratio of powers over all images is what counts in the end, and a single image with unusual
values can decide it. So a gain has to be shown in one of two ways. It exceeds a standard error and
a quarter, by the jackknife: the spread of the gain when one image after the other is left out
(Efron, "The Jackknife, the Bootstrap and Other Resampling Plans", 1982, chapter 3). Or the images
agree: the mean of the gains of each, in decibels, exceeds a standard error. Both answers are
judged on the same images, so that what is hard for both cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.numerics.snr import Runs, powers

Array = npt.NDArray[Any]
ERRORS = 1.25
"""Standard errors that a gain has to exceed. A gain on one image alone is just over one, whatever
the others are; one on two images alike 1.4. Nine of ten gains above it are real."""
AGREEING_ERRORS = 1.0
"""Standard errors that the mean of the images' own gains has to exceed: five of six are real."""
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, kw_only=True, eq=False)
class Judgement:
    """Signal and noise power of a quantized network's outputs on some images.

    Parameters
    ----------
    signal, noise
        (images, outputs) float64: the power of what FP32 gives, and of the difference.
    """

    signal: Array
    noise: Array

    @classmethod
    def of(cls, runs: Runs) -> Judgement:
        """Return the judgement on pairs of outputs, FP32's and the other's, images stacked."""
        signal, noise = powers(runs)
        return cls(signal=signal, noise=noise)

    @classmethod
    def joined(cls, parts: Sequence[Judgement]) -> Judgement:
        """Return the judgement on the images of several ones, in their order."""
        return cls(
            signal=np.concatenate([part.signal for part in parts]),
            noise=np.concatenate([part.noise for part in parts]),
        )

    @property
    def ratio_db(self) -> float:
        """Signal-to-noise ratio of the least exact output over all images."""
        if not self.noise.any():
            return float("inf")
        return float(_least_db(self.signal.sum(axis=0), self.noise.sum(axis=0)))

    def beats(self, other: Judgement, by_db: float) -> bool:
        """Return whether this one is better by more than ``by_db`` and than chance explains."""
        gain = self.ratio_db - other.ratio_db if self.noise.any() or other.noise.any() else 0.0
        if not gain > by_db:
            return False
        left_out = self._left_out_db() - other._left_out_db()
        error = float(np.sqrt((len(left_out) - 1) * left_out.var()))
        gains = self._of_images_db() - other._of_images_db()
        mean_error = float(np.sqrt(gains.var() / max(len(gains) - 1, 1)))
        return gain > ERRORS * error or float(gains.mean()) > AGREEING_ERRORS * mean_error

    def _left_out_db(self) -> Array:
        """Return (images,): the ratio over all images but one."""
        return _least_db(self.signal.sum(axis=0) - self.signal, self.noise.sum(axis=0) - self.noise)

    def _of_images_db(self) -> Array:
        """Return (images,): the ratio of each image."""
        return _least_db(self.signal, self.noise)


def _least_db(signal: Array, noise: Array) -> Array:
    # Sums are clamped: what is left without one image may be nothing, and inf - inf no gain.
    decibels = [10 * np.log10(np.maximum(power, TINY)) for power in (signal, noise)]
    least: Array = (decibels[0] - decibels[1]).min(axis=-1)
    return least
