"""Memory and processor time to load a network and run it: each system in a process of its own."""

from __future__ import annotations

import dataclasses
import importlib
import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path

from rich.console import Console

from benchmarks import apart
from benchmarks.compare_systems import Say, cores_for, float_model, quantized_files
from benchmarks.rounds import Rules
from benchmarks.subject import Inputs, Subject
from benchmarks.systems import SYSTEMS, System
from relay_int8.cli.terminal import show, table

STATUS, SHARED = Path("/proc/self/status"), Path("/proc/self/smaps_rollup")
RUNS = 3
PROCESSES = 4
WAIT_S = 600  # for the slowest of them
_meeting: Barrier | None = None  # of processes that run the same network
COLUMNS = (
    "network",
    "batch",
    "threads",
    "system",
    "file MB",
    "load CPU s",
    "imported MiB",
    "load peak MiB",
    "run peak MiB",
    "private MiB",
    "plan MiB",
    f"{PROCESSES} processes MiB",
)
RIGHT = COLUMNS[1:3] + COLUMNS[4:]
EXPLANATION = """\
Peaks are those of the resident memory (VmHWM) up to then: with the system's libraries imported, the
network loaded, and run three times. Private is what is resident at the end and no mapped file, so
that other processes cannot share it. The plan is what memory planning reserves here for tensors
between kernels. CPU seconds are those of all threads, from the file to a network that is ready.
Of several processes that have loaded and run the same file the proportional sizes (PSS) are added
up: pages that they share count once."""


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """What one system takes for one network.

    Parameters
    ----------
    file_bytes
        Of the quantized network, weights beside it included.
    load_cpu_s
        Processor seconds of all threads to load it.
    imported_bytes, loaded_bytes, run_bytes
        The most that was resident: before, after loading, after some runs.
    private_bytes
        What is resident after these and no mapped file.
    activation_bytes
        What memory planning reserves, where the system says so.
    together_bytes
        What ``PROCESSES`` processes take that have loaded it and run it, shared pages counted once.
    """

    file_bytes: int
    load_cpu_s: float
    imported_bytes: int
    loaded_bytes: int
    run_bytes: int
    private_bytes: int
    activation_bytes: int | None = None
    together_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class MemoryCell:
    """Footprints of all systems for one network, batch and number of threads."""

    network: str
    batch: int
    threads: int
    footprints: Mapping[str, Footprint]
    failures: Mapping[str, str] = field(default_factory=dict)


def compare_memory(
    subject: Subject, batches: Sequence[int], threads: Sequence[int], rules: Rules, say: Say
) -> Iterator[MemoryCell]:
    """Yield the footprints for every batch and number of threads."""
    for batch in batches:
        model = float_model(subject, batch, rules, say)
        files, failures = quantized_files(subject, model, batch, rules, say)
        inputs = subject.inputs(batch)
        for count in threads:
            found, absent = {}, dict(failures)
            for key, file in files.items():
                say(f"{subject.network}, batch {batch}, threads {count}: {SYSTEMS[key].name}")
                footprint, failure = apart.attempt(measure, key, file, inputs, count)
                if footprint is None:
                    absent[key] = failure
                    continue
                shared = together_bytes(key, file, inputs, count)
                found[key] = dataclasses.replace(footprint, together_bytes=shared)
            yield MemoryCell(
                network=subject.network,
                batch=batch,
                threads=count,
                footprints=found,
                failures=absent,
            )


def measure(key: str, file: Path, inputs: Inputs, threads: int) -> Footprint:
    """Load and run one system in this process, which must be a new one."""
    system = _imported(key, threads)
    imported, started = resident_bytes("VmHWM"), time.process_time()
    running = system.load(file, inputs, threads)
    load_cpu_s = time.process_time() - started
    loaded = resident_bytes("VmHWM")
    for _ in range(RUNS):
        running.outputs()
    return Footprint(
        file_bytes=sum(part.stat().st_size for part in _parts(file)),
        load_cpu_s=load_cpu_s,
        imported_bytes=imported,
        loaded_bytes=loaded,
        run_bytes=resident_bytes("VmHWM"),
        private_bytes=resident_bytes("RssAnon"),
        activation_bytes=_planned_bytes(file) if system.own else None,
    )


def together_bytes(key: str, file: Path, inputs: Inputs, threads: int) -> int:
    """Return what several processes take that have loaded and run one system's network."""
    context = multiprocessing.get_context("spawn")
    meeting = context.Barrier(PROCESSES, timeout=WAIT_S)
    pool = ProcessPoolExecutor(PROCESSES, context, initializer=_meet_at, initargs=(meeting,))
    with pool:
        share = partial(_share_bytes, key, inputs=inputs, threads=threads)
        return sum(pool.map(share, [file] * PROCESSES))


def _meet_at(meeting: Barrier) -> None:
    global _meeting
    _meeting = meeting


def _share_bytes(key: str, file: Path, inputs: Inputs, threads: int) -> int:
    """Load and run a system in this process; return its share of memory when all have done so."""
    assert _meeting
    try:
        running = _imported(key, threads).load(file, inputs, threads)
        running.outputs()
        _meeting.wait()  # so that each process takes one, and all are there when they are counted
        share = resident_bytes("Pss", SHARED)
        _meeting.wait()
    except BaseException:
        _meeting.abort()  # the others would wait
        raise
    return share


def _imported(key: str, threads: int) -> System:
    """Return a system whose libraries are imported, in a process that keeps to some cores."""
    os.sched_setaffinity(0, cores_for(threads))
    os.environ["TVM_NUM_THREADS"] = str(threads)
    system = SYSTEMS[key]
    importlib.import_module(system.loader.partition(":")[0])
    return system


def resident_bytes(key: str, status: Path = STATUS) -> int:
    """Return an entry of the kernel's account of this process's memory, as VmHWM or RssAnon.

    ``ru_maxrss`` is no such thing: a process inherits it from the one that started it.
    """
    for line in status.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == key:
            return int(value.split()[0]) * 1024
    raise KeyError(f"{status} has no {key}")


def _parts(file: Path) -> list[Path]:
    """Return the files of a network: OpenVINO's weights lie beside its .xml."""
    weights = file.with_suffix(".bin")
    return [file, weights] if file.suffix == ".xml" and weights.exists() else [file]


def _planned_bytes(file: Path) -> int:
    import relay_int8

    return relay_int8.read_manifest(file).memory["activation_bytes"]


def memory_rows(cells: Sequence[MemoryCell]) -> list[tuple[str, ...]]:
    """Return a row for each system of each cell."""
    return [
        (cell.network, str(cell.batch), str(cell.threads), SYSTEMS[key].name, *_numbers(footprint))
        for cell in cells
        for key, footprint in cell.footprints.items()
    ]


def print_memory(cells: Sequence[MemoryCell], facts: Mapping[str, str], console: Console) -> None:
    """Print the table, then where and with what."""
    rows = table(console, *COLUMNS, right=RIGHT)
    for row in memory_rows(cells):
        rows.add_row(*row)
    show(console, "Memory", rows)
    for line in _failures(cells):
        console.print(line, style="red")
    console.print(EXPLANATION)
    for key, value in facts.items():
        console.print(f"{key}: {value}", soft_wrap=True)


def memory_markdown(cells: Sequence[MemoryCell], facts: Mapping[str, str]) -> str:
    """Return the same as Markdown."""
    rules = tuple("---:" if column in RIGHT else "---" for column in COLUMNS)
    lines = [f"| {' | '.join(row)} |" for row in (COLUMNS, rules, *memory_rows(cells))]
    lines += ["", *(f"- {line}" for line in _failures(cells))]
    lines += [EXPLANATION, "", *(f"- {key}: {value}" for key, value in facts.items())]
    return "\n".join(lines) + "\n"


def _numbers(footprint: Footprint) -> tuple[str, ...]:
    planned = footprint.activation_bytes
    resident = ("imported_bytes", "loaded_bytes", "run_bytes", "private_bytes")
    return (
        f"{footprint.file_bytes / 1e6:.1f}",
        f"{footprint.load_cpu_s:.2f}",
        *(f"{getattr(footprint, name) / 2**20:.0f}" for name in resident),
        "-" if planned is None else f"{planned / 2**20:.1f}",
        f"{footprint.together_bytes / 2**20:.0f}",
    )


def _failures(cells: Sequence[MemoryCell]) -> list[str]:
    return [
        f"{cell.network}, batch {cell.batch}: {SYSTEMS[key].name} took no part: {reason}"
        for cell in cells
        for key, reason in cell.failures.items()
    ]
