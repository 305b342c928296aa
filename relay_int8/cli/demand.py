"""``--max-drop`` and ``--min-snr`` of ``quantize``: the accuracy that is demanded."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from relay_int8 import Demand

ACCURACY = "What accuracy is demanded"

MaxDrop = Annotated[
    float | None,
    typer.Option(
        help="Leave layers in float until top-1 is at most this many percentage points below FP32 "
        "on the same images; needs --labels.",
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
        help="Of --max-drop: the classes of --eval-data, of --data without one; a file or a "
        "folder, as evaluate takes them.",
        rich_help_panel=ACCURACY,
    ),
]


def check_demand(
    max_drop: float | None,
    min_snr: float | None,
    labels: Path | None,
    eval_data: Path | None,
    data: Path | None,
) -> None:
    """Refuse what contradicts itself, before anything is imported.

    Raises
    ------
    typer.BadParameter
        Naming what to leave out or to add.
    """
    demanded = max_drop is not None or min_snr is not None
    goal = max_drop if max_drop is not None else min_snr
    refusals = {
        "--max-drop and --min-snr are both given; demand one of them": max_drop is not None
        and min_snr is not None,
        "--max-drop is of top-1: give the classes of the images with --labels, or demand "
        "--min-snr, which needs none": max_drop is not None and labels is None,
        "--labels are of --max-drop, which is not given": labels is not None and max_drop is None,
        "--eval-data is of --max-drop and --min-snr; neither is given": eval_data is not None
        and not demanded,
        f"{goal} is demanded; give a finite number": goal is not None and not math.isfinite(goal),
        f"--max-drop {goal}: give how many points top-1 may be below FP32, 0 or more": (
            max_drop is not None and max_drop < 0
        ),
        "there are no images to measure on: give --data, or --eval-data": demanded
        and data is None
        and eval_data is None,
    }
    for refusal, applies in refusals.items():
        if applies:
            raise typer.BadParameter(refusal)


def chosen_demand(
    max_drop: float | None,
    min_snr: float | None,
    labels: Path | None,
    eval_data: Path | None,
    data: Path | None,
) -> Demand | None:
    """Return the demand of options that :func:`check_demand` has let pass; None without any."""
    import relay_int8

    if max_drop is None and min_snr is None:
        return None
    images = eval_data or data
    classes = None
    if labels is not None and images is not None:
        classes = relay_int8.read_labels(labels, images)
    return relay_int8.Demand(max_drop=max_drop, min_snr_db=min_snr, labels=classes, data=eval_data)
