"""Searches over histograms of one pass, whose bins are a power of two wide.

The published methods count over bins that divide the exact range, which a first pass over the data
has to find. Here the bins double whenever the range outgrows them (``calibration.growing``), so the
data is read once, and of 2048 bins at least 1024 lie below the largest value. Thresholds differ a
little from those of two passes, so the methods have names of their own. Histograms are of ``|x|``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from relay_int8.calibration.methods.base import SymmetricMethod
from relay_int8.calibration.methods.kl_tensorrt import KlTensorrt
from relay_int8.calibration.methods.mse import Mse
from relay_int8.calibration.methods.percentile import Percentile


@dataclass(frozen=True)
class KlTensorrtOnePass(SymmetricMethod, KlTensorrt):
    """``kl-tensorrt`` over such a histogram."""

    name: ClassVar[str] = "kl-tensorrt-onepass"
    one_pass: ClassVar[bool] = True


@dataclass(frozen=True)
class PercentileOnePass(SymmetricMethod, Percentile):
    """``percentile`` over such a histogram."""

    name: ClassVar[str] = "percentile-onepass"
    one_pass: ClassVar[bool] = True


@dataclass(frozen=True)
class MseOnePass(Mse):
    """``mse`` over such a histogram."""

    name: ClassVar[str] = "mse-onepass"
    one_pass: ClassVar[bool] = True
