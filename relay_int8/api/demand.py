"""An accuracy that a quantized network has to reach, and how it was reached."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relay_int8.data.sources import Batches
from relay_int8.errors import ConfigError

Array = np.ndarray[Any, Any]
Metric = Callable[[Iterator[dict[str, Array]]], float]
"""Takes the outputs of every image, in order: name -> array of batch 1. Higher is better."""

TOP1 = "top-1"
SNR = "SNR"
ROUNDING = 1e-9  # rounding error of the difference of two shares: 0.615 - 0.605 is more than 0.01


@dataclass(frozen=True, kw_only=True, eq=False)
class Demand:
    """An accuracy that a quantized network has to reach, by layers left in float if need be.

    One of ``max_drop``, ``minimum`` and ``min_snr_db`` is given. The first two are of top-1 with
    ``labels``, or of a ``metric``.

    Parameters
    ----------
    max_drop
        How far below FP32 the result may be, on the same images: of top-1 in percentage points, of
        a metric in its own unit.
    minimum
        What the result has to be: of top-1 a fraction.
    min_snr_db
        Signal-to-noise ratio of the least exact output against FP32, in decibels.
    labels
        Integers, one for each image of ``data``; the first output is looked at.
    metric
        Called with an iterator over the outputs of the images of ``data``, one dictionary of
        arrays (of batch 1) an image, in order; returns a number, the higher the better.
    data
        Images to measure on, as :func:`relay_int8.open_data` takes them. None: every second
        calibration image is measured on, and the others calibrate; ``labels`` then are those of
        all of them.

    Raises
    ------
    ConfigError
        If nothing is demanded, or things that exclude each other are.

    Examples
    --------
    >>> str(Demand(min_snr_db=25))
    'SNR at least 25 dB'
    >>> str(Demand(max_drop=1, labels=np.arange(10)))
    'top-1 at most 1 percentage points below FP32'
    """

    max_drop: float | None = None
    minimum: float | None = None
    min_snr_db: float | None = None
    labels: Array | None = None
    metric: Metric | None = None
    data: str | Path | Batches | None = None

    def __post_init__(self) -> None:
        names = ("max_drop", "minimum", "min_snr_db")
        goals = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if len(goals) != 1:
            given = " and ".join(goals) or "none"
            raise ConfigError(f"{given} of {', '.join(names)} given; a demand is one of them")
        for name, goal in goals.items():
            if not math.isfinite(goal):
                raise ConfigError(f"{name} is {goal}; give a finite number")
        if self.max_drop is not None and self.max_drop < 0:
            raise ConfigError(
                f"max_drop is {self.max_drop}; give how far below FP32 the result may be: 0 or more"
            )
        if self.metric is not None and not callable(self.metric):
            raise ConfigError(
                f"metric is a {type(self.metric).__name__}; give a function of the outputs"
            )
        self._check_judge()

    def _check_judge(self) -> None:
        """Refuse a goal without what it is measured by, or with what it is not."""
        judges = [name for name in ("labels", "metric") if getattr(self, name) is not None]
        if self.min_snr_db is not None:
            if judges:
                raise ConfigError(
                    f"min_snr_db compares with FP32 and needs no {judges[0]}; leave that out, or "
                    "give max_drop"
                )
            return
        if len(judges) != 1:
            raise ConfigError(
                f"{'both' if judges else 'neither'} of labels and metric given; max_drop and "
                "minimum are of top-1, with labels, or of a metric; min_snr_db needs none of them"
            )
        if self.metric is not None and self.data is None:
            raise ConfigError("a metric knows the images that it is for; give them as data")
        if self.labels is not None and self.minimum is not None and not 0 <= self.minimum <= 1:
            raise ConfigError(f"minimum is {self.minimum}; top-1 is a fraction, 0 to 1")

    def __str__(self) -> str:
        """Return the demand in words."""
        if self.min_snr_db is not None:
            return f"{self.measure} at least {self.min_snr_db:g} dB"
        if self.minimum is not None:
            return f"{self.measure} at least {self.minimum:g}"
        unit = "" if self.labels is None else " percentage points"
        return f"{self.measure} at most {self.max_drop:g}{unit} below FP32"

    @property
    def measure(self) -> str:
        """Name of what is measured."""
        if self.min_snr_db is not None:
            return SNR
        if self.labels is not None:
            return TOP1
        return str(getattr(self.metric, "__name__", type(self.metric).__name__))

    def holds(self, score: float, fp32: float) -> bool:
        """Return whether a network of ``score`` is good enough, FP32 being ``fp32``."""
        if self.min_snr_db is not None:
            return score >= self.min_snr_db
        if self.minimum is not None:
            return score >= self.minimum - ROUNDING
        assert self.max_drop is not None
        allowed = self.max_drop / 100 if self.labels is not None else self.max_drop
        return fp32 - score <= allowed + ROUNDING


@dataclass(frozen=True, kw_only=True)
class DemandMet:
    """How a demand was met: the layers left in float, and what was measured.

    Parameters
    ----------
    demand, measure
        The demand in words; what was measured: "top-1", "SNR" or the metric's name.
    images
        How many it was measured on.
    held_out
        Whether these are calibration images that did not calibrate.
    fp32, int8, reached
        What FP32 has, the network with everything in integers, and the result: top-1 as a fraction,
        ratios in decibels (of FP32 infinite).
    floats
        Layers that are in float for the demand's sake, in the order of execution.
    float_macs
        Their share of the network's multiply-accumulates.
    measurements
        How many networks were built and measured.
    """

    demand: str
    measure: str
    images: int
    held_out: bool
    fp32: float
    int8: float
    reached: float
    floats: tuple[str, ...]
    float_macs: float
    measurements: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, as a report holds them."""
        return asdict(self)
