"""``--metric``, ``--max-drop``, ``--min-snr`` of ``quantize``: what accuracy is, and has to be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relay_int8.cli.words import METRICS, among

if TYPE_CHECKING:
    from relay_int8 import Demand, ImageLabels

ACCURACY = "What accuracy is, and what is demanded"
TOP1, MEAN_IOU, AGREEMENT = METRICS

MetricName = Annotated[
    str | None,
    typer.Option(
        "--metric",
        help="What --preset auto goes by, before decibels, and what --max-drop is of: top-1 or "
        "mean-iou (of a segmentation), which need --labels, or agreement with FP32's classes.",
        autocompletion=among(METRICS),
        rich_help_panel=ACCURACY,
    ),
]
MaxDrop = Annotated[
    float | None,
    typer.Option(
        help="Leave layers in float until top-1, or --metric, is at most this many percentage "
        "points below FP32 on the same images; needs --labels, but for agreement.",
        rich_help_panel=ACCURACY,
    ),
]
MinSnr = Annotated[
    float | None,
    typer.Option(
        help="Leave layers in float until the outputs are so near to FP32, in dB; needs no labels.",
        rich_help_panel=ACCURACY,
    ),
]
EvalData = Annotated[
    Path | None,
    typer.Option(
        help="Images to measure on, in any form of --data; every second one of --data, which then "
        "do not calibrate, if not given.",
        rich_help_panel=ACCURACY,
    ),
]
DemandLabels = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        help="Of --max-drop and --metric: the classes of --eval-data, of --data without one; a "
        "file or a folder, as evaluate takes them. Of mean-iou: a .npy file of (images, height, "
        "width), or a folder of .png or .npy masks named as the pictures.",
        rich_help_panel=ACCURACY,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """These options, the images, and whether the preset chooses by a metric."""

    max_drop: float | None
    min_snr: float | None
    metric: str | None
    labels: Path | None
    eval_data: Path | None
    data: Path | None
    is_auto: bool

    def check(self) -> None:
        """Refuse what contradicts itself, before anything is imported.

        Raises
        ------
        typer.BadParameter
            Naming what to leave out or to add.
        """
        for refusal, applies in (self._metric_refusals() | self._demand_refusals()).items():
            if applies:
                raise typer.BadParameter(refusal)

    def _metric_refusals(self) -> dict[str, bool]:
        metric, by_drop = self.metric, self.max_drop is not None
        given, labelled = metric is not None, self.labels is not None
        return {
            f"--metric {metric}: {', '.join(METRICS)} are known": given and metric not in METRICS,
            "--metric says what --preset auto and --max-drop go by; neither is given": given
            and not (self.is_auto or by_drop),
            f"--metric {AGREEMENT} compares with FP32: leave --labels out": metric == AGREEMENT
            and labelled,
            "--max-drop is of top-1: give the classes of the images with --labels, or demand "
            "--min-snr, which needs none": by_drop and not given and not labelled,
            f"--metric {metric} needs --labels; {AGREEMENT} needs none": metric in (TOP1, MEAN_IOU)
            and not labelled,
            "--labels are of --max-drop and --metric; neither is given": labelled
            and not (by_drop or given),
            f"--labels are those of --eval-data, and --preset auto goes by {metric} of --data: "
            f"leave --eval-data out, or take {AGREEMENT}": self.is_auto
            and given
            and labelled
            and self.eval_data is not None,
            "--preset auto goes by --metric on the images of --data: give them": self.is_auto
            and given
            and self.data is None,
        }

    def _demand_refusals(self) -> dict[str, bool]:
        max_drop, demanded = self.max_drop, self.max_drop is not None or self.min_snr is not None
        goal = max_drop if max_drop is not None else self.min_snr
        return {
            "--max-drop and --min-snr are both given; demand one of them": max_drop is not None
            and self.min_snr is not None,
            "--eval-data is of --max-drop and --min-snr; neither is given": self.eval_data
            is not None
            and not demanded,
            f"{goal} is demanded; give a finite number": goal is not None
            and not math.isfinite(goal),
            f"--max-drop {goal}: give how many points below FP32 are allowed, 0 or more": (
                max_drop is not None and max_drop < 0
            ),
            "there are no images to measure on: give --data, or --eval-data": demanded
            and self.data is None
            and self.eval_data is None,
        }

    def read_labels(self) -> ImageLabels | None:
        """Return the classes, or masks, that :meth:`check` has let pass; None without any."""
        import relay_int8

        images = self.eval_data or self.data
        if self.labels is None or images is None:
            return None
        if self.metric == MEAN_IOU:
            return relay_int8.read_masks(self.labels, images)
        return relay_int8.read_labels(self.labels, images)

    def demand(self, labels: ImageLabels | None) -> Demand | None:
        """Return the demand, None without any."""
        import relay_int8

        if self.min_snr is not None:
            return relay_int8.Demand(min_snr_db=self.min_snr, data=self.eval_data)
        if self.max_drop is None:
            return None
        return relay_int8.Demand(
            max_drop=self.max_drop, metric=self.metric, labels=labels, data=self.eval_data
        )
