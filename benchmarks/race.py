"""Measure a network: quantize it for every system, then let the systems take turns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import apart
from benchmarks.cell import Cell, Clock
from benchmarks.subject import Subject
from benchmarks.systems import SYSTEMS
from benchmarks.turns import Turn, racers
from relay_int8.files import write_atomic

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How turns are taken.

    Parameters
    ----------
    systems
        Keys of ``SYSTEMS``.
    rounds
        Turns of each system.
    turn_s
        Seconds of a turn, at least.
    clock
        Which seconds count.
    folder
        Where models and quantized files lie; what is there is used again.
    """

    systems: tuple[str, ...]
    rounds: int
    turn_s: float
    clock: Clock
    folder: Path


def race(
    subject: Subject, batches: Sequence[int], threads: Sequence[int], rules: Rules, say: Say
) -> Iterator[Cell]:
    """Yield a cell for every batch and number of threads."""
    model = rules.folder / f"{subject.name}.onnx"
    if not model.exists():
        say(f"{subject.network}: write the network")
        write_atomic(model, subject.model().SerializeToString())
    macs = apart.call(apart.macs, subject)
    for batch in batches:
        files, failures = _quantized(subject, model, batch, rules, say)
        images = subject.images(batch)
        expected = apart.call(apart.float_logits, model, images)
        for count in threads:
            say(f"{subject.network}, batch {batch}, threads {count}: {rules.rounds} rounds")
            peak = apart.call(apart.vpdpbusd_peak, cores_for(1)[0])
            turns, logits, absent = _take_turns(files, images, count, rules)
            yield Cell(
                network=subject.network,
                image_size=subject.image_size,
                batch=batch,
                threads=count,
                clock=rules.clock,
                macs=macs,
                peak_macs_s=peak,
                turns=turns,
                cosines={key: _cosine(found, expected) for key, found in logits.items()},
                failures=failures | absent,
            )


def cores_for(threads: int) -> tuple[int, ...]:
    """Return the cores for ``threads``: the last one alone, since interrupts prefer the first.

    More than one are counted from the first, as TVM counts when it binds its threads.
    """
    cores = sorted(os.sched_getaffinity(0))
    return tuple(cores[-1:] if threads == 1 else cores[:threads])


def _quantized(
    subject: Subject, model: Path, batch: int, rules: Rules, say: Say
) -> tuple[dict[str, Path], dict[str, str]]:
    """Quantize for every system; return the files, and why there is none for the others."""
    files, failures = {}, {}
    for key in rules.systems:
        file = SYSTEMS[key].file(subject, rules.folder, batch)
        if not file.exists():
            say(f"{subject.network}, batch {batch}: quantize for {SYSTEMS[key].name}")
            failure = apart.call(apart.quantize, key, subject, model, file, batch)
            if failure:
                failures[key] = failure
                continue
        files[key] = file
    return files, failures


def _take_turns(
    files: Mapping[str, Path], images: np.ndarray, threads: int, rules: Rules
) -> tuple[dict[str, tuple[Turn, ...]], dict[str, np.ndarray], dict[str, str]]:
    """Return the turns and the logits of each system, and why others could not be loaded."""
    cores = cores_for(threads)
    starts = {key: (SYSTEMS[key], file, images, threads, cores) for key, file in files.items()}
    with racers(starts) as (running, failures):
        turns: dict[str, list[Turn]] = {key: [] for key in running}
        for _ in range(rules.rounds):
            for key, racer in running.items():
                turns[key].append(racer.turn(rules.turn_s))
        logits = {key: racer.logits for key, racer in running.items()}
    return {key: tuple(values) for key, values in turns.items()}, logits, failures


def _cosine(found: np.ndarray, expected: np.ndarray) -> float:
    a, b = found.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))
