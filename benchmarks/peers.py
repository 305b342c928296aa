"""int8 here beside ONNX Runtime int8 and OpenVINO int8, taking turns on the same networks.

Every system runs in a process of its own, which is stopped whenever it is not its turn: here, ONNX
Runtime, OpenVINO, here, ... With one thread a process is bound to one core.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from benchmarks import zoo
from benchmarks.compare_systems import HostRules, compare_systems
from benchmarks.measurement import Measurement
from benchmarks.memory import MemoryCell, compare_memory, memory_markdown, print_memory
from benchmarks.script_parser import script_parser
from benchmarks.subject import Subject, files, subject
from benchmarks.systems import FLOAT32, INT8, SYSTEMS, missing_packages, versions
from benchmarks.table import markdown, print_tables, summary
from relay_int8.cli.terminal import terminal
from relay_int8.errors import ConfigError
from relay_int8.files import write_atomic
from relay_int8.machine.host import cpu_name


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, measure, print; return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.fp32:
        options.systems = [*options.systems, *FLOAT32]
    if missing := missing_packages(options.systems):
        print(
            f"not installed: {', '.join(missing)}; these come with the extra 'bench': "
            f"{sys.executable} -m pip install -e '.[bench]'",
            file=sys.stderr,
        )
        return 1
    cores = len(os.sched_getaffinity(0))
    if max(options.threads) > cores:
        parser.error(f"--threads {max(options.threads)}, but this process may use {cores} cores")
    if options.clock == "cpu" and options.threads != [1]:
        parser.error("--clock cpu adds up the threads' seconds; use it with --threads 1")
    folder = nullcontext(str(options.cache)) if options.cache else tempfile.TemporaryDirectory()
    with folder as cache:
        Path(cache).mkdir(parents=True, exist_ok=True)
        cells: Sequence[Measurement | MemoryCell]
        cells = (_measure_memory if options.memory else _measure)(options, Path(cache))
    return 1 if any(cell.failures for cell in cells) else 0


def _parser() -> argparse.ArgumentParser:
    parser = script_parser("scripts/bench_peers", __doc__)
    add = parser.add_argument
    add(
        "--networks",
        nargs="+",
        choices=[*zoo.NETWORKS, *zoo.TRANSFORMERS],
        default=[name for name in zoo.NETWORKS if not name.startswith("dcn_")],
        metavar="NETWORK",
        help="convolutional ones by default, but for the deformable, which OpenVINO cannot run; of "
        f"{', '.join((*zoo.NETWORKS, *zoo.TRANSFORMERS))}",
    )
    add(
        "--transformers",
        dest="networks",
        action="store_const",
        const=list(zoo.TRANSFORMERS),
        help="networks of tokens",
    )
    add(
        "--files",
        nargs="+",
        type=Path,
        default=[],
        metavar="FOLDER",
        help="networks of batch 1 from files, in place of the zoo's: NAME.onnx with NAME.calib.npz "
        "and NAME.test.npz, inputs along the first axis of each array",
    )
    add(
        "--batch",
        nargs="+",
        type=_positive,
        help="1 and 16; networks of tokens, whose files are for one batch, 1 by default",
    )
    add("--threads", nargs="+", type=_positive, default=[1, 2])
    add("--rounds", type=_positive, default=9, help="turns of each system (9)")
    add("--turn", type=float, default=0.25, help="seconds of a turn, at least (0.25)")
    add(
        "--image-size",
        type=_positive,
        help="as each network was published, by default; or the number of words",
    )
    add("--systems", nargs="+", choices=list(SYSTEMS), default=list(INT8), help="all int8 ones")
    add("--fp32", action="store_true", help="also float32 by ONNX Runtime and OpenVINO")
    add("--calibration-images", type=_positive, default=8, help="synthetic, for every system (8)")
    add(
        "--clock",
        choices=["wall", "cpu"],
        default="wall",
        help="cpu counts only while a process has its core, for a machine that others use too",
    )
    add(
        "--memory",
        action="store_true",
        help="measure memory and the processor time of loading instead of speed",
    )
    add("--cache", type=Path, help="folder that keeps networks and quantized files")
    add("--markdown", type=Path, help="file to write the tables to")
    add("--json", type=Path, help="file to write everything to, after every cell")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def _measure(options: argparse.Namespace, folder: Path) -> list[Measurement]:
    rules = _rules(options, folder)
    facts, cells, console = _facts(rules.systems), [], terminal()
    for what, batches in _subjects(options):
        for cell in compare_systems(what, batches, options.threads, rules, _say):
            cells.append(cell)
            _say(summary(cell))
            known = facts | _machine_facts(cells)
            _write(options, cells, markdown(cells, known), known)
    print_tables(cells, facts | _machine_facts(cells), console)
    return cells


def _measure_memory(options: argparse.Namespace, folder: Path) -> list[MemoryCell]:
    rules = _rules(options, folder)
    facts, cells = _facts(rules.systems), []
    for what, batches in _subjects(options):
        for cell in compare_memory(what, batches, options.threads, rules, _say):
            cells.append(cell)
            _write(options, cells, memory_markdown(cells, facts), facts)
    print_memory(cells, facts, terminal())
    return cells


def _rules(options: argparse.Namespace, folder: Path) -> HostRules:
    return HostRules(
        systems=tuple(dict.fromkeys(options.systems)),
        rounds=options.rounds,
        turn_s=options.turn,
        clock=options.clock,
        folder=folder,
    )


def _subjects(options: argparse.Namespace) -> Iterator[tuple[Subject, list[int]]]:
    """Yield each network, and the batches that it is measured with."""
    for folder in options.files:
        yield from ((file, [1]) for file in files(folder))
    for network in () if options.files else options.networks:
        what = subject(network, options.image_size, options.calibration_images)
        yield what, options.batch or ([1, 16] if what.open else [1])


def _write(
    options: argparse.Namespace,
    cells: Sequence[Measurement | MemoryCell],
    text: str,
    facts: Mapping[str, str],
) -> None:
    """Write the files that were asked for; ``text`` is the Markdown."""
    if options.json:
        content = {"facts": facts, "cells": [dataclasses.asdict(cell) for cell in cells]}
        write_atomic(options.json, (json.dumps(content, indent=1) + "\n").encode())
    if options.markdown:
        write_atomic(options.markdown, text.encode())


def _facts(systems: Sequence[str]) -> dict[str, str]:
    """Return when, where, with what and how."""
    return {
        "machine": f"{cpu_name()}, {len(os.sched_getaffinity(0))} cores",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "versions": ", ".join(f"{name} {number}" for name, number in versions(systems).items()),
        "command": shlex.join(["scripts/bench_peers", *sys.argv[1:]]),
    }


def _machine_facts(cells: Sequence[Measurement]) -> dict[str, str]:
    facts = {}
    peaks = [cell.peak_macs_s for cell in cells if cell.peak_macs_s]
    if peaks:
        low, high = min(peaks) / 1e9, max(peaks) / 1e9
        facts["peak of one core"] = f"{low:.0f} to {high:.0f} GMAC/s"
    shares = [cell.core_share for cell in cells if cell.threads == 1]
    if shares:
        facts["one thread had its core"] = f"{min(shares):.0%} of the time, or more"
    return facts


def _say(step: str) -> None:
    print(step, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ConfigError as error:
        sys.exit(f"error: {error}")
