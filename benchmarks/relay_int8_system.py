"""The project itself, with the tuning logs that come with it, as a user runs it: artifacts."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

import relay_int8
from benchmarks.subject import Inputs, Subject
from benchmarks.turn import Stopwatch, Turn
from relay_int8 import BuildOptions

ONE_THREAD = ".one-thread"
DEFAULTS = BuildOptions()


def quantize(subject: Subject, model: Path, output: Path, batch: int) -> None:
    """Write the network as artifacts for this computer."""
    write_artifacts(quantized(subject, model, batch), output)


def quantized(subject: Subject, model: Path, batch: int) -> relay_int8.Quantized:
    """Return the network in integers; what the subject requires must be. Defaults otherwise."""
    options = relay_int8.ImportOptions(batch=batch if subject.open else None)
    return relay_int8.quantize(
        relay_int8.load_model(model, options),
        subject.calibration(batch),
        relay_int8.QuantConfig(require_int8=subject.required),
    )


def write_artifacts(
    network: relay_int8.Quantized, output: Path, options: BuildOptions = DEFAULTS
) -> None:
    """Compile a network for all cores, and for a single thread beside it."""
    for file, threads in ((output, None), (_one_thread(output), 1)):
        relay_int8.build(network, replace(options, threads=threads)).save(file)


def _one_thread(file: Path) -> Path:
    return file.with_suffix(f"{ONE_THREAD}{file.suffix}")


class Latency:
    """One run after the other, each by all threads: ``Module.time``."""

    def __init__(self, file: Path, inputs: Inputs, threads: int) -> None:
        self._module = relay_int8.load(_one_thread(file) if threads == 1 else file, threads=threads)
        self._inputs = inputs

    def outputs(self) -> np.ndarray:
        """Run once and return the logits."""
        return next(iter(self._module.run(self._inputs).values()))

    def turn(self, seconds: float) -> Turn:
        """Run one after the other."""
        return _timed_turn(seconds, self._module, self._inputs, 1)


class Throughput:
    """As many runs at a time as there are threads: :class:`relay_int8.Streams`."""

    def __init__(self, file: Path, inputs: Inputs, threads: int) -> None:
        os.environ["TVM_NUM_THREADS"] = "1"  # of the pools of threads to come
        self._streams = relay_int8.Streams(_one_thread(file), threads)
        self._inputs = inputs

    def outputs(self) -> np.ndarray:
        """Run one copy once and return the logits."""
        return next(iter(self._streams.submit(self._inputs).result().values()))

    def turn(self, seconds: float) -> Turn:
        """Run all copies at the same time."""
        return _timed_turn(seconds, self._streams, self._inputs, self._streams.count)


def _timed_turn(
    seconds: float,
    timed: relay_int8.Module | relay_int8.Streams,
    inputs: Inputs,
    results: int,
) -> Turn:
    """Return the turn of ``seconds`` or a little more, in which each repeat gives ``results``."""
    once_ms = timed.time(inputs, 1, warmup=0)[0] * results
    repeats = max(1, math.ceil(seconds * 1e3 / once_ms))
    watch = Stopwatch()
    timed.time(inputs, repeats, warmup=0)
    return watch.stop(repeats * results)
