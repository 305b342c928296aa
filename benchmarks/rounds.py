"""The rounds of a comparison: each system has its turn, and how near its logits come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.turns import Racer, RacerError


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How turns are taken.

    Parameters
    ----------
    systems
        Keys of the table of systems.
    rounds
        Turns of each system.
    turn_s
        Seconds of a turn, at least.
    folder
        Where files of the systems lie; what is there is used again.
    """

    systems: tuple[str, ...]
    rounds: int
    turn_s: float
    folder: Path


def take_rounds(
    running: Mapping[str, Racer], rules: Rules
) -> tuple[dict[str, tuple[Any, ...]], dict[str, str]]:
    """Return the turns of the systems that last to the end, and why others do not."""
    turns: dict[str, list[Any]] = {key: [] for key in running}
    failures: dict[str, str] = {}
    for _ in range(rules.rounds):
        for key in list(turns):
            try:
                turns[key].append(running[key].turn(rules.turn_s))
            except (RacerError, OSError) as error:  # OSError: its pipe is closed
                failures[key] = str(error)
                del turns[key]
    return {key: tuple(values) for key, values in turns.items()}, failures


def cosine(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the cosine of the angle between two arrays of logits."""
    a, b = found.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))
