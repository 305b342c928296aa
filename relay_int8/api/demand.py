"""An accuracy that a quantized network has to reach, and how it was reached."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from relay_int8.api.bind_metric import bound_metric, name_of, require_metric
from relay_int8.api.metrics import TOP1
from relay_int8.data.sources import Batches
from relay_int8.errors import ConfigError
from relay_int8.quantization.metric import ROUNDING, BoundMetric, ImageLabels, Metric

SNR = "SNR"


@dataclass(frozen=True, kw_only=True, eq=False)
class Demand:
    """An accuracy that a quantized network has to reach, by layers left in float if need be.

    One of ``max_drop``, ``minimum`` and ``min_snr_db`` is given. The first two are of a ``metric``,
    of top-1 where ``labels`` alone are given.

    Parameters
    ----------
    max_drop
        How far below FP32 the result may be, on the same images: in percentage points, of a
        function in its own unit.
    minimum
        What the result has to be: of the metrics that have names a fraction.
    min_snr_db
        Signal-to-noise ratio of the least exact output against FP32, in decibels.
    labels
        One for each image of ``data``: of top-1 integers, of mean-iou integer masks (height,
        width), for a function whatever it takes.
    metric
        "top-1", "mean-iou" or "agreement" (with FP32's classes), which look at the first output; or
        a function, called with two iterators that have one item an image, in order: the outputs, a
        dictionary of output name -> array as the network gives it for batch 1, and the labels;
        without labels, the outputs of FP32, which are computed as they are asked for. It looks
        at all outputs and returns a number, the higher the better.
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
    >>> str(Demand(max_drop=1, labels=[7, 2, 1]))
    'top-1 at most 1 percentage points below FP32'
    """

    max_drop: float | None = None
    minimum: float | None = None
    min_snr_db: float | None = None
    labels: ImageLabels | None = None
    metric: str | Metric | None = None
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
        if not judges:
            raise ConfigError(
                "neither of labels and metric given; max_drop and minimum are of a metric, of "
                "top-1 with labels alone; min_snr_db needs none of them"
            )
        require_metric(self._metric, self.labels)
        if self._is_share and self.minimum is not None and not 0 <= self.minimum <= 1:
            raise ConfigError(f"minimum is {self.minimum}; {self.measure} is a fraction, 0 to 1")

    def __str__(self) -> str:
        """Return the demand in words."""
        if self.min_snr_db is not None:
            return f"{self.measure} at least {self.min_snr_db:g} dB"
        if self.minimum is not None:
            return f"{self.measure} at least {self.minimum:g}"
        unit = " percentage points" if self._is_share else ""
        return f"{self.measure} at most {self.max_drop:g}{unit} below FP32"

    @property
    def measure(self) -> str:
        """Name of what is measured."""
        if self.min_snr_db is not None:
            return SNR
        return name_of(self._metric)

    @property
    def judge(self) -> BoundMetric | None:
        """The metric with the labels; None where decibels are measured."""
        return None if self.min_snr_db is not None else bound_metric(self._metric, self.labels)

    @property
    def _metric(self) -> str | Metric:
        return TOP1 if self.metric is None else self.metric

    @property
    def _is_share(self) -> bool:
        """Whether the metric is a share of images or pixels."""
        return self.min_snr_db is None and isinstance(self._metric, str)

    def holds(self, score: float, fp32: float) -> bool:
        """Return whether a network of ``score`` is good enough, FP32 being ``fp32``."""
        if self.min_snr_db is not None:
            return score >= self.min_snr_db
        if self.minimum is not None:
            return score >= self.minimum - ROUNDING
        assert self.max_drop is not None
        allowed = self.max_drop / 100 if self._is_share else self.max_drop
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
