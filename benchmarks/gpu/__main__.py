"""Int8 networks on an NVIDIA GPU beside PyTorch and TensorRT: bits, times, what bounds each kernel.

Two steps, which may be on two computers:

  --build DIR   compile the networks of the zoo and compute what they must give; needs no GPU
  --run DIR     compare on the GPU every integer that is known, then let the systems take turns

--run needs Python 3.11, NumPy, an NVIDIA driver for CUDA 13 and libcudart.so.13. A build with
--python brings TVM's runtime along:
    PYTHON=python3 scripts/bench_gpu --run DIR
and then nothing is installed.
PyTorch and TensorRT take part where they are installed; they need the package onnx too, TensorRT
also onnxruntime. Of DIR, only the packs of the chosen networks have to be there.

  --record FILE   turn the JSON of a run into tuning logs; needs TVM
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
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.gpu.bundle import Bundle, BundleError, Entry, open_bundle
from benchmarks.gpu.bundle_runtime import RuntimeCopyError
from benchmarks.gpu.chunks import ChunkError
from benchmarks.gpu.compare_systems import GpuRules, compare_systems, survey, systems_for
from benchmarks.gpu.measurement import GpuMeasurement
from benchmarks.gpu.peaks import Peaks
from benchmarks.gpu.systems import DEFAULT, SYSTEMS, versions
from benchmarks.gpu.table import clocks, markdown, summary
from benchmarks.script_parser import script_parser
from relay_int8.errors import Int8Error
from relay_int8.files import write_atomic
from relay_int8.machine.cuda_driver import DriverError

NETWORKS = (
    "resnet18",
    "resnet50",
    "vgg19",
    "inception_v3",
    "resnext50_32x4d",
    "drn_c_26",
    "mobilenet_v2",
)
BATCHES = (1, 16, 64)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, build or run; return the exit code: 1 where a bit was wrong or a step failed."""
    options = _parser().parse_args(arguments)
    # Where PyTorch is, tvm_ffi would compile an extension for it, for a minute.
    os.environ.setdefault("TVM_FFI_DISABLE_TORCH_C_DLPACK", "1")
    try:
        if options.build:
            _build(options)
        if options.run:
            return _run(options)
        if options.record:
            from benchmarks.gpu.log_entries import record

            for folder in record(options.record, options.tuning_logs or Path("tuning_logs")):
                print(folder)
    except (BundleError, ChunkError, DriverError, Int8Error, RuntimeCopyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = script_parser("scripts/bench_gpu", __doc__)
    add = parser.add_argument
    step = parser.add_mutually_exclusive_group(required=True)
    step.add_argument("--build", type=Path, metavar="DIR")
    step.add_argument("--run", type=Path, metavar="DIR")
    step.add_argument("--record", type=Path, metavar="FILE")
    add("--networks", nargs="+", choices=NETWORKS, help="all, or all that were built")
    add("--batch", nargs="+", type=int, help="1 16 64, or all that were built")
    built = parser.add_argument_group("with --build")
    built.add_argument(
        "--arch",
        default="sm_90",
        help="native, all, or names with commas between, as of relay-int8 quantize; schedules are "
        "chosen for the oldest (sm_90)",
    )
    built.add_argument("--host", action="store_true", help="for this computer's processor instead")
    built.add_argument("--python", default="", help="of the other computer, as 3.12: ship TVM too")
    built.add_argument("--wheels", type=Path, help="folder that has apache-tvm-ffi for it")
    built.add_argument("--image-size", type=int, help="the published one of each network")
    built.add_argument("--cut", action="store_true", help="one block of a kind, for a quick look")
    built.add_argument("--no-oracle", action="store_true", help="only this computer judges")
    built.add_argument("--tuning-logs", type=Path, help="kernels run as they were tuned")
    run = parser.add_argument_group("with --run")
    run.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(DEFAULT))
    run.add_argument("--rounds", type=int, default=7, help="turns of each system (7)")
    run.add_argument("--turn", type=float, default=0.3, help="seconds of a turn, at least (0.3)")
    run.add_argument("--no-layers", action="store_true", help="do not time kernels one by one")
    run.add_argument("--cache", type=Path, help="folder that keeps artifacts and float networks")
    run.add_argument("--json", type=Path, help="file to write everything to, after every network")
    run.add_argument("--markdown", type=Path, help="file to write the tables to")
    return parser


def _build(options: argparse.Namespace) -> None:
    from benchmarks import zoo
    from benchmarks.gpu.prepare import Plan, prepare
    from relay_int8.compiler.target import CUDA, resolve
    from schedules.template import ScheduleError

    assert set(NETWORKS) <= set(zoo.NETWORKS)
    if any(batch < 1 for batch in options.batch or ()):
        raise BundleError(f"batch {min(options.batch)}: a batch has one image at least")
    plan = Plan(
        networks=tuple(options.networks or NETWORKS),
        batches=tuple(options.batch or BATCHES),
        architectures=() if options.host else resolve(CUDA, options.arch).architectures,
        image_size=options.image_size,
        oracle=not options.no_oracle,
        tuning_logs=options.tuning_logs,
        cut=options.cut,
        python=options.python,
        wheels=options.wheels,
    )
    try:
        bundle = prepare(options.build, plan, _say)
    except ScheduleError as error:
        raise BundleError(f"{options.build}: {error}") from error
    for network in plan.networks:
        recipes = [
            recipe
            for entry in bundle.entries
            if entry.network == network
            for recipe in entry.recipes.values()
        ]
        packs = bundle.store.packs(recipes)
        size = sum((bundle.store.folder / pack).stat().st_size for pack in packs)
        print(f"{network}: {size / 2**20:.1f} MiB in {len(packs)} packs")


def _run(options: argparse.Namespace) -> int:
    bundle = open_bundle(options.run)
    chosen = _chosen(bundle, options.networks, options.batch)
    facts, measured, sheet = survey(bundle)
    facts = _facts(facts, bundle, options)
    cells: list[GpuMeasurement] = []
    folder = nullcontext(str(options.cache)) if options.cache else tempfile.TemporaryDirectory()
    with folder as cache:
        Path(cache).mkdir(parents=True, exist_ok=True)
        rules = GpuRules(
            systems=tuple(systems_for(tuple(dict.fromkeys(options.systems)), bundle.kind)),
            rounds=options.rounds,
            turn_s=options.turn,
            folder=Path(cache),
            layers=not options.no_layers,
        )
        for entry in chosen:
            cells.append(compare_systems(bundle, entry, measured, rules, _say))
            _say(summary(cells[-1]))
            _write(options, cells, facts, measured, sheet)
    print(markdown(cells, facts | {"clocks": clocks(cells)}, measured, sheet))
    return 1 if any(cell.wrong or cell.own_failures for cell in cells) else 0


def _chosen(
    bundle: Bundle, networks: Sequence[str] | None, batches: Sequence[int] | None
) -> list[Entry]:
    found = [
        entry
        for entry in bundle.entries
        if (not networks or entry.network in networks) and (not batches or entry.batch in batches)
    ]
    if not found:
        held = ", ".join(entry.name for entry in bundle.entries)
        raise BundleError(f"{bundle.folder} holds {held}; none of these was asked for")
    return found


def _facts(found: dict[str, Any], bundle: Bundle, options: argparse.Namespace) -> dict[str, Any]:
    """Return where, when, with what and how."""
    return {
        "device": found.pop("name"),
        **found,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "python": sys.version.split()[0],
        **versions(tuple(options.systems)),
        **{f"build {key}": value for key, value in bundle.facts.items()},
        "command": shlex.join(["scripts/bench_gpu", *sys.argv[1:]]),
    }


def _write(
    options: argparse.Namespace,
    cells: Sequence[GpuMeasurement],
    facts: dict[str, Any],
    measured: Peaks,
    sheet: Peaks,
) -> None:
    facts = facts | {"clocks": clocks(cells)}
    if options.json:
        content = {
            "facts": facts,
            "measured": dataclasses.asdict(measured),
            "sheet": dataclasses.asdict(sheet),
            "cells": [dataclasses.asdict(cell) for cell in cells],
        }
        write_atomic(options.json, (json.dumps(content, indent=1) + "\n").encode())
    if options.markdown:
        write_atomic(options.markdown, markdown(cells, facts, measured, sheet).encode())


def _say(step: str) -> None:
    print(step, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
