"""Searches over histograms of one pass, whose bins are a power of two wide.

The published methods count over bins that divide the exact range, which a first pass over the data
has to find. Here the bins double whenever the range outgrows them (``calibration.growing``), so the
data is read once, and of 2048 bins at least 1024 lie below the largest value. Thresholds differ a
little from those of two passes, so the methods have names of their own. Histograms are of ``|x|``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from relay_int8.calibration.growing import covering
from relay_int8.calibration.histogram import Grid, Range
from relay_int8.calibration.methods.base import SymmetricMethod
from relay_int8.calibration.methods.kl_tensorrt import KlTensorrt
from relay_int8.calibration.methods.mse import Mse
from relay_int8.calibration.methods.percentile import Percentile
from relay_int8.numerics.qparams import Scheme


class OnePassMethod(SymmetricMethod):
    """A method whose histogram is one of ``|x|`` with bins a power of two wide."""

    one_pass: ClassVar[bool] = True
    scales_channels: ClassVar[bool] = False

    def grid(self, scheme: Scheme, observed: Range) -> Grid:
        """Return the grid that a tensor with this range ends with."""
        return covering(observed.largest, self.bins)


@dataclass(frozen=True)
class KlTensorrtOnePass(OnePassMethod, KlTensorrt):
    """``kl-tensorrt`` over such a histogram."""

    name: ClassVar[str] = "kl-tensorrt-onepass"


@dataclass(frozen=True)
class PercentileOnePass(OnePassMethod, Percentile):
    """``percentile`` over such a histogram."""

    name: ClassVar[str] = "percentile-onepass"


@dataclass(frozen=True)
class MseOnePass(OnePassMethod, Mse):
    """``mse`` over such a histogram."""

    name: ClassVar[str] = "mse-onepass"
