"""Whether a GPU computes what it must: kernels one by one, then small whole networks.

  --build DIR   compile them for --arch, and compute what they must give; needs no GPU
  --run DIR     compare on the GPU; needs NumPy, TVM's runtime and CUDA's, and no compiler

Each library of kernels and each network runs in a process of its own: what a GPU's fault breaks is
gone with it. What was found is written after each of them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu.kernel_cases import read_index, wrong_kernels
from benchmarks.gpu.network_cases import network_names, wrong_network
from benchmarks.script_parser import script_parser
from relay_int8.files import write_atomic

KERNELS, NETWORKS = "kernels", "networks"
LIMIT_S = 120.0  # of one process; a context, some libraries and little else
WORK = {KERNELS: wrong_kernels, NETWORKS: wrong_network}


def main(arguments: Sequence[str] | None = None) -> int:
    """Build or run; return the exit code: 1 where anything was wrong."""
    options = _parser().parse_args(arguments)
    if options.build:
        build(options.build, options.arch, options.only)
        return 0
    if options.case:
        kind, name = options.case
        print(json.dumps(WORK[kind](options.run / kind, name)))
        return 0
    return run(options.run, options.json, options.only, options.limit)


def _parser() -> argparse.ArgumentParser:
    parser = script_parser("python -m benchmarks.gpu.exactness", __doc__)
    add = parser.add_argument
    step = parser.add_mutually_exclusive_group(required=True)
    step.add_argument("--build", type=Path, metavar="DIR")
    step.add_argument("--run", type=Path, metavar="DIR")
    add("--arch", default="sm_90", help="that is built for (sm_90)")
    add("--only", nargs="+", default=(), help="families of kernels, names of networks; or kinds")
    add("--json", type=Path, help="file to write what was wrong to, after every case")
    add("--limit", type=float, default=LIMIT_S, help=f"seconds of a case ({LIMIT_S:.0f})")
    add("--case", nargs=2, metavar=("KIND", "NAME"), help=argparse.SUPPRESS)
    return parser


def build(folder: Path, architecture: str, only: Sequence[str] = ()) -> None:
    """Fill ``folder``; families and networks that are named in ``only``, or all."""
    from benchmarks.gpu.prepare_kernels import prepare_kernels
    from benchmarks.gpu.prepare_networks import SIZES, WRITTEN, prepare_networks
    from tests.cuda.ptx.families import FAMILIES

    families = [name for name in only if name in FAMILIES]
    networks = [name for name in only if name in {*SIZES, *WRITTEN}]
    if families or not only or KERNELS in only:
        prepare_kernels(folder / KERNELS, architecture, _say, families)
    if networks or not only or NETWORKS in only:
        prepare_networks(folder / NETWORKS, architecture, _say, networks)


def run(
    folder: Path, report: Path | None, only: Sequence[str] = (), limit_s: float = LIMIT_S
) -> int:
    """Run every case; return the exit code."""
    cases = [(KERNELS, name) for name in read_index(folder / KERNELS)]
    cases += [(NETWORKS, name) for name in network_names(folder / NETWORKS)]
    chosen = [case for case in cases if not only or set(case) & set(only)]
    wrong: dict[str, dict[str, str]] = {}
    for kind, name in chosen:
        found = _of_process(folder, kind, name, limit_s)
        wrong[f"{kind} {name}"] = found
        print(f"{kind} {name}: {found or 'equal'}", flush=True)
        if report:
            write_atomic(report, (json.dumps(wrong, indent=1) + "\n").encode())
    faults = sum(map(bool, wrong.values()))
    print(f"{len(wrong)} cases, {faults} wrong", flush=True)
    return 1 if faults or not wrong else 0


def _of_process(folder: Path, kind: str, name: str, limit_s: float) -> dict[str, str]:
    """Return what a case finds wrong, or why it did not end."""
    command = [sys.executable, "-m", "benchmarks.gpu.exactness", "--run", str(folder)]
    try:
        done = subprocess.run(
            [*command, "--case", kind, name], capture_output=True, text=True, timeout=limit_s
        )
    except subprocess.TimeoutExpired:
        return {"process": f"it did not end within {limit_s:.0f} s"}
    if done.returncode:
        print(done.stderr, file=sys.stderr, flush=True)
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return {"process": f"it ended with {done.returncode}: {last[:500]}"}
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")][-1:]
    found: dict[str, str] = json.loads(line)
    return found


def _say(step: str) -> None:
    print(step, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
