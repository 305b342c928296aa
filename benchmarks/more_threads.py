"""What more threads than this computer has would gain: a model, from one thread's times.

A network is built for each number of threads, and the parallel loops of its kernels are read. A
thread takes a whole number of a loop's tasks, so the last ones to end have up to one task more than
the mean; what is in no parallel loop runs on one thread. Each loop is announced to the threads and
waited for, which takes LAUNCH_US and THREAD_US for each thread more. Times of kernels are those
that one thread takes here. The model leaves out caches and memory that threads share: it prints how
much data a second all threads would have to read and write, of activations and of weights.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm import tirx

import relay_int8
from benchmarks import zoo
from benchmarks.compare_systems import float_model
from benchmarks.relay_int8_system import quantized
from benchmarks.rounds import Rules
from benchmarks.script_parser import script_parser
from benchmarks.subject import subject
from relay_int8 import BuildOptions
from relay_int8.cli.terminal import show, table, terminal
from relay_int8.compiler.kernel_calls import kernel_calls_of, timed_calls
from relay_int8.compiler.pipeline import lower
from relay_int8.compiler.target import resolve_target

LAUNCH_US, THREAD_US = 0.4, 0.1  # 0.6 were measured with two threads
THREADS = (2, 4, 8, 16)


@dataclass(frozen=True)
class Loop:
    """A part of a kernel: its tasks, one if it is in no parallel loop, and steps of all of them."""

    tasks: int
    steps: int

    def share(self, threads: int) -> float:
        """Return what part of its steps the thread has that has most of them."""
        return math.ceil(self.tasks / threads) / self.tasks


@dataclass(frozen=True)
class Predicted:
    """Microseconds of a run: of kernels on one thread, of kernels, and of waiting for launches."""

    one_thread_us: float
    kernels_us: float
    launches_us: float
    bytes: int

    @property
    def run_us(self) -> float:
        """Of the whole run."""
        return self.kernels_us + self.launches_us


def loops_of(func: tirx.PrimFunc) -> list[Loop]:
    """Return the parts of a scheduled kernel."""
    return [*_loops(func.body, 1, 1)]


def _loops(code: tirx.Stmt, tasks: int, times: int) -> Iterator[Loop]:
    """Yield the parts of code that runs ``times`` times within ``tasks`` tasks."""
    if isinstance(code, tirx.SeqStmt):
        for each in code:
            yield from _loops(each, tasks, times)
    elif isinstance(code, tirx.For):
        extent = int(code.extent)
        is_parallel = code.kind == tirx.ForKind.PARALLEL
        repeats = 1 if code.kind == tirx.ForKind.VECTORIZED else extent
        yield from _loops(code.body, extent if is_parallel else tasks, times * repeats)
    elif isinstance(code, tirx.IfThenElse):
        yield from _loops(code.then_case, tasks, times)
    elif isinstance(code, tvm.s_tir.SBlockRealize):
        yield from _loops(code.block.body, tasks, times)
    elif hasattr(code, "body"):
        yield from _loops(code.body, tasks, times)
    else:
        yield Loop(tasks, times)


def predicted(
    kernels: Sequence[tuple[Sequence[Loop], float]], moved_bytes: int, threads: int
) -> Predicted:
    """Return a run's time by the parts of its kernels, and their microseconds on one thread."""
    kernels_us = launches_us = 0.0
    for loops, time_us in kernels:
        steps = sum(loop.steps for loop in loops)
        kernels_us += time_us * sum(loop.steps * loop.share(threads) for loop in loops) / steps
        launched = {loop.tasks for loop in loops} - {1}
        launches_us += len(launched) * (LAUNCH_US + THREAD_US * threads)
    return Predicted(sum(time_us for _, time_us in kernels), kernels_us, launches_us, moved_bytes)


def times_of(network: relay_int8.Quantized, folder: Path, repeats: int) -> Mapping[str, float]:
    """Return the microseconds that each kernel call takes on one thread, by its name."""
    file = folder / "one-thread.ri8"
    artifact = relay_int8.build(network, BuildOptions(threads=1, records=False))
    artifact.save(file)
    module = relay_int8.load(file, threads=1)
    inputs = relay_int8.random_inputs(module.manifest.inputs)
    module.time(inputs, repeats)
    timed = timed_calls(artifact.built.calls, module.profile(inputs, repeats))
    return {call.name: time_us for call, time_us in timed}


def predictions(
    network: relay_int8.Quantized, times: Mapping[str, float], counts: Sequence[int]
) -> Iterator[tuple[int, Predicted]]:
    """Yield each number of threads with the time that a run would take."""
    for threads in counts:
        target = resolve_target("native", threads)
        with target:
            lowered = lower(target)(network.network.mod)
        calls = [call for call in kernel_calls_of(lowered) if call.name in times]
        if len(calls) < len(times):
            lost = len(times) - len(calls)
            raise RuntimeError(f"{lost} kernels are others for {threads} threads")
        parts = [(loops_of(lowered[call.function]), times[call.name]) for call in calls]
        moved = sum(call.activation_bytes + call.constant_bytes for call in calls)
        yield threads, predicted(parts, moved, threads)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, measure, print; return the exit code."""
    parser = script_parser("scripts/bench_threads", __doc__)
    add = parser.add_argument
    add("--networks", nargs="+", required=True, choices=[*zoo.NETWORKS, *zoo.TRANSFORMERS])
    add("--threads", nargs="+", type=int, default=THREADS)
    add("--repeats", type=int, default=30, help="runs of which the median is taken (30)")
    options = parser.parse_args(arguments)
    console = terminal()
    columns = ("threads", "ms", "times as fast", "uneven %", "launches %", "GB/s")
    rows = table(console, "network", *columns, right=columns)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        rules = Rules(systems=(), rounds=1, turn_s=0, folder=folder)
        for name in options.networks:
            what = subject(name, None, calibration_images=8)
            network = quantized(what, float_model(what, 1, rules, lambda _step: None), 1)
            times = times_of(network, folder, options.repeats)
            for threads, found in predictions(network, times, options.threads):
                rows.add_row(name, *_row(threads, found))
    show(console, "batch 1, by the model", rows)
    return 0


def _row(threads: int, found: Predicted) -> tuple[str, ...]:
    uneven = 1 - found.one_thread_us / threads / found.kernels_us
    return (
        str(threads),
        f"{found.run_us / 1e3:.2f}",
        f"{found.one_thread_us / found.run_us:.2f}",
        f"{100 * uneven * found.kernels_us / found.run_us:.0f}",
        f"{100 * found.launches_us / found.run_us:.0f}",
        f"{found.bytes / found.run_us / 1e3:.0f}",
    )


if __name__ == "__main__":
    sys.exit(main())
