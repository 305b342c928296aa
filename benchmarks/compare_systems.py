"""Measure a network: quantize it for every system, then let the systems take turns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import apart, steps
from benchmarks.measurement import Clock, Measurement
from benchmarks.rounds import Rules, cosine, take_rounds
from benchmarks.subject import Inputs, Subject
from benchmarks.systems import SYSTEMS
from benchmarks.turn import Turn
from benchmarks.turns import racers
from relay_int8.files import write_atomic
from relay_int8.numerics.snr import snr_db

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class HostRules(Rules):
    """Rules of a comparison on the processor; ``clock`` says which seconds count."""

    clock: Clock


def compare_systems(
    subject: Subject, batches: Sequence[int], threads: Sequence[int], rules: HostRules, say: Say
) -> Iterator[Measurement]:
    """Yield a measurement for every batch and number of threads."""
    macs = apart.call(steps.macs, subject)
    for batch in batches:
        model = float_model(subject, batch, rules, say)
        files, failures = quantized_files(subject, model, batch, rules, say)
        inputs = subject.inputs(batch)
        expected = apart.call(steps.float_logits, model, inputs)
        for count in threads:
            say(f"{subject.network}, batch {batch}, threads {count}: {rules.rounds} rounds")
            peak = apart.call(steps.integer_peak, cores_for(1)[0])
            turns, logits, absent = _take_turns(files, inputs, count, rules)
            yield Measurement(
                network=subject.network,
                image_size=subject.image_size,
                batch=batch,
                threads=count,
                clock=rules.clock,
                macs=macs,
                peak_macs_s=peak,
                turns=turns,
                cosines={key: cosine(found, expected) for key, found in logits.items()},
                snr_db={
                    key: snr_db(expected.ravel(), found.ravel()) for key, found in logits.items()
                },
                failures=failures | absent,
            )


def cores_for(threads: int) -> tuple[int, ...]:
    """Return the cores for ``threads``: the last one alone, since interrupts prefer the first.

    More than one are counted from the first, as TVM counts when it binds its threads.
    """
    cores = sorted(os.sched_getaffinity(0))
    return tuple(cores[-1:] if threads == 1 else cores[:threads])


def float_model(subject: Subject, batch: int, rules: Rules, say: Say) -> Path:
    """Write the float32 network once for all batches, or for this one; return its file."""
    model = rules.folder / f"{subject.name}{'' if subject.open else f'-b{batch}'}.onnx"
    if not model.exists():
        say(f"{subject.network}: write the network")
        content = subject.model() if subject.open else subject.model(batch)
        write_atomic(model, content.SerializeToString())
    return model


def quantized_files(
    subject: Subject, model: Path, batch: int, rules: Rules, say: Say
) -> tuple[dict[str, Path], dict[str, str]]:
    """Quantize for every system; return the files, and why there is none for the others."""
    files, failures = {}, {}
    operators = apart.call(steps.operators, model)
    for key in rules.systems:
        if not SYSTEMS[key].takes(operators):
            continue
        file = SYSTEMS[key].file(subject, rules.folder, batch)
        if not file.exists():
            say(f"{subject.network}, batch {batch}: quantize for {SYSTEMS[key].name}")
            _, failure = apart.attempt(steps.quantize, key, subject, model, file, batch)
            if failure:
                failures[key] = failure
                continue
        files[key] = file
    return files, failures


def _take_turns(
    files: Mapping[str, Path], inputs: Inputs, threads: int, rules: Rules
) -> tuple[dict[str, tuple[Turn, ...]], dict[str, np.ndarray], dict[str, str]]:
    """Return the turns and the logits of each system, and why others have none."""
    cores = cores_for(threads)
    starts = {key: (SYSTEMS[key], file, inputs, threads, cores) for key, file in files.items()}
    with racers(starts) as (running, failures):
        turns, ended = take_rounds(running, rules)
        logits = {key: running[key].logits for key in turns}
    return turns, logits, failures | ended
