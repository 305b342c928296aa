"""Memory and processor time to load a network and run it: each system in a process of its own."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from benchmarks import apart
from benchmarks.compare_systems import Say, cores_for, float_model, quantized_files
from benchmarks.rounds import Rules
from benchmarks.subject import Inputs, Subject
from benchmarks.systems import SYSTEMS
from relay_int8.cli.terminal import show, table

STATUS = Path("/proc/self/status")
RUNS = 3
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
)
RIGHT = COLUMNS[1:3] + COLUMNS[4:]
EXPLANATION = """\
Peaks are those of the resident memory (VmHWM) up to then: with the system's libraries imported, the
network loaded, and run three times. Private is what is resident at the end and no mapped file, so
that other processes cannot share it. The plan is what memory planning reserves here for tensors
between kernels. CPU seconds are those of all threads, from the file to a network that is ready."""


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
    """

    file_bytes: int
    load_cpu_s: float
    imported_bytes: int
    loaded_bytes: int
    run_bytes: int
    private_bytes: int
    activation_bytes: int | None = None


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
                else:
                    found[key] = footprint
            yield MemoryCell(
                network=subject.network,
                batch=batch,
                threads=count,
                footprints=found,
                failures=absent,
            )


def measure(key: str, file: Path, inputs: Inputs, threads: int) -> Footprint:
    """Load and run one system in this process, which must be a new one."""
    os.sched_setaffinity(0, cores_for(threads))
    os.environ["TVM_NUM_THREADS"] = str(threads)
    system = SYSTEMS[key]
    importlib.import_module(system.loader.partition(":")[0])
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
    )


def _failures(cells: Sequence[MemoryCell]) -> list[str]:
    return [
        f"{cell.network}, batch {cell.batch}: {SYSTEMS[key].name} took no part: {reason}"
        for cell in cells
        for key, reason in cell.failures.items()
    ]
