"""Everything that only a GPU can show, in twenty minutes: bits first, then times.

  --out DIR    run it all here; DIR holds what was found, whatever fails: summary.md, summary.json,
               exact.json, tests.xml (JUnit), bench.json, peers.json, and log.txt
  --pack DIR   fill DIR with all that this needs, for a computer where nothing can be installed:
               the project, its packages for --python, and what is built for --arch; --light leaves
               out the compiler and with it the tests, so that some 80 MB remain. Where less can be
               sent at a time: once without exact, once without bench/packs and bench/bundle.json

There, with a Python of that version and an NVIDIA driver for CUDA 13 (with --light also NumPy and
CUDA's runtime):

    PYTHON=python3 DIR/scripts/gpu_check --out results

The steps, in this order, are those that can run where they are; --steps chooses among them:

  exact      kernels and small networks that were built into a pack, against NumPy and a CPU
  tests      the tests marked gpu; they quantize and tune, so they need a C compiler
  bench      this project's networks: every tensor, times of networks and of kernels
  memcheck   the kernels of "exact" again, under compute-sanitizer, where that is installed
  racecheck  likewise
  peers      the times of PyTorch and TensorRT, as far as they are installed
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from benchmarks.gpu.bundle import INDEX
from benchmarks.gpu.pack import BATCHES, BENCH, EXACT, ROOT, pack
from benchmarks.script_parser import script_parser

NETWORKS = ("resnet50", "mobilenet_v2")
OWN_SYSTEMS = ("relay-int8", "relay-int8-captured", "relay-int8-calls")
PEERS = ("relay-int8", "torch-fp16-graph", "tensorrt-int8", "torch-fp32", "torch-compile")
MINUTES = 20.0
SHARES = {
    "exact": 0.3,
    "tests": 0.55,
    "build": 0.65,
    "bench": 0.8,
    "memcheck": 0.85,
    "racecheck": 0.9,
    "peers": 1.0,
}
"""The steps in their order, and how much of the time is over when each is stopped at last."""
SANITIZER = "compute-sanitizer"
SANITIZED_S = 600  # of a case under a tool that slows kernels down a hundred times
LAST_WORDS_S = 20  # for pytest to write what it has found, once it is interrupted
GRACE_S = 30  # of all the time, for the summary


@dataclass(frozen=True, kw_only=True)
class Step:
    """One program that was run: its exit code, or none where its time was up."""

    name: str
    command: tuple[str, ...]
    seconds: float
    exit_code: int | None

    @property
    def verdict(self) -> str:
        """What became of it, in words."""
        if self.exit_code is None:
            return "stopped: its time was up"
        return "passed" if self.exit_code == 0 else f"failed with exit code {self.exit_code}"


@dataclass(frozen=True, kw_only=True)
class TestReport:
    """What pytest says: how many passed, and by name what failed or was skipped, and why."""

    passed: int = 0
    failed: dict[str, str] | None = None
    skipped: dict[str, str] | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Check or pack; return the exit code: 1 where anything failed."""
    options = _parser().parse_args(arguments)
    if options.pack:
        return pack(
            options.pack, options.python, options.arch, options.networks, light=options.light
        )
    return check(options)


def _parser() -> argparse.ArgumentParser:
    parser = script_parser("scripts/gpu_check", __doc__)
    add = parser.add_argument
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, metavar="DIR")
    what.add_argument("--pack", type=Path, metavar="DIR")
    add("--minutes", type=float, default=MINUTES, help=f"for everything ({MINUTES:.0f})")
    add("--networks", nargs="+", default=NETWORKS, help="of the benchmark")
    add("--tests", nargs="+", default=["tests/gpu"], help="files that pytest is given (tests/gpu)")
    add("--steps", nargs="+", choices=list(SHARES), help="all that can run")
    add("--no-bench", action="store_true", help="no times")
    version = ".".join(platform.python_version_tuple()[:2])
    add("--python", default=version, help=f"that the packed folder is for ({version})")
    add("--light", action="store_true", help="pack no compiler, and none of the tests")
    add("--arch", default="sm_90", help="that the packed benchmark is built for (sm_90)")
    return parser


def check(options: argparse.Namespace) -> int:
    """Run the chosen steps, and write down what each has found as soon as it ends."""
    out, start = options.out.resolve(), time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    facts, steps = machine(), list[Step]()
    with tempfile.TemporaryDirectory() as scratch:
        planned = commands(options, out, Path(scratch))
        last = max((SHARES[name] for name in planned), default=1.0)
        for name, command in planned.items():
            print(f"== {name}", flush=True)
            end = start + 60 * options.minutes * SHARES[name] / last - GRACE_S
            steps.append(run_step(name, command, end - time.monotonic(), out / "log.txt"))
            print(f"   {steps[-1].verdict}, {steps[-1].seconds:.0f} s", flush=True)
            write_summary(out, facts, steps, sorted(Path(scratch).glob("*.md")))
    print(out / "summary.md")
    return 0 if all(step.exit_code == 0 for step in steps) else 1


def commands(options: argparse.Namespace, out: Path, scratch: Path) -> dict[str, list[str]]:
    """Return the programs of the steps that can run here, of those that were chosen."""
    module, found = [sys.executable, "-m"], dict[str, list[str]]()
    exact = [*module, "benchmarks.gpu.exactness", "--run", str(ROOT / EXACT)]
    if (ROOT / EXACT).exists():
        found["exact"] = [*exact, "--json", str(out / "exact.json")]
        if shutil.which(SANITIZER):
            for tool in ("memcheck", "racecheck"):
                sanitizer = [SANITIZER, "--tool", tool, "--error-exitcode", "9"]
                command = [*sanitizer, "--target-processes", "all", *exact]
                found[tool] = [*command, "--only", "kernels", "--limit", str(SANITIZED_S)]
    if (ROOT / "tests").exists():
        report = [f"--junitxml={out / 'tests.xml'}", "-p", "no:cacheprovider"]
        found["tests"] = [*module, "pytest", "-m", "gpu", *report, *options.tests]
    if not options.no_bench:
        found |= _benchmark(options, out, scratch)
    wanted = options.steps or SHARES
    return {name: found[name] for name in SHARES if name in found and name in (*wanted, "build")}


def _benchmark(options: argparse.Namespace, out: Path, scratch: Path) -> dict[str, list[str]]:
    """Return the programs that build, where a pack has no build, and time networks."""
    command, built = [sys.executable, "-m", "benchmarks.gpu"], ROOT / BENCH
    found, chosen = dict[str, list[str]](), ["--networks", *options.networks, "--batch", *BATCHES]
    if built.exists() and not (built / INDEX).exists():
        return {}  # a pack that was sent without its networks
    if not built.exists():
        built = scratch / BENCH
        # The NumPy oracle of every tensor would take longer than there is; a pack has it.
        build = ["--build", str(built), "--arch", "native", "--no-oracle"]
        found["build"] = [*command, *build, *chosen]
    for name, systems in (("bench", OWN_SYSTEMS), ("peers", PEERS)):
        files = ["--json", str(out / f"{name}.json"), "--markdown", str(scratch / f"{name}.md")]
        layers = [] if name == "bench" else ["--no-layers"]
        found[name] = [*command, "--run", str(built), *files, *layers, "--systems", *systems]
    return found


def run_step(name: str, command: Sequence[str], seconds: float, log: Path) -> Step:
    """Run a program for so long; then it is interrupted, and at last killed, with its children."""
    start = time.monotonic()
    with log.open("a") as file:
        file.write(f"\n== {name}: {shlex.join(command)}\n")
        file.flush()
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code: int | None = process.wait(max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            code = None
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(LAST_WORDS_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    took = time.monotonic() - start
    return Step(name=name, command=tuple(command), seconds=round(took, 1), exit_code=code)


def machine() -> dict[str, Any]:
    """Return the name of this computer, its GPUs and what it has of what is needed."""
    from relay_int8.machine.gpu import installed_gpus

    gpus = installed_gpus()
    compiler = next((name for name in ("g++", "gcc", "cc", "clang") if shutil.which(name)), "none")
    return {
        "computer": platform.node(),
        "gpus": [str(device) for device in gpus.devices] or [gpus.problem],
        "driver": f"CUDA {gpus.driver}" if gpus.driver else "none",
        "system": platform.platform(),
        "python": platform.python_version(),
        "c compiler": compiler,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def read_tests(report: Path) -> TestReport:
    """Return what pytest has written; nothing passed if it has not."""
    if not report.exists():
        return TestReport()
    passed, failed, skipped = 0, dict[str, str](), dict[str, str]()
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        reasons = [
            (kind, found.get("message") or "")
            for kind in ("failure", "error", "skipped")
            if (found := case.find(kind)) is not None
        ]
        for kind, reason in reasons:
            (skipped if kind == "skipped" else failed)[name] = reason
        passed += not reasons
    return TestReport(passed=passed, failed=failed, skipped=skipped)


def read_exact(report: Path) -> dict[str, dict[str, str]]:
    """Return what is wrong, by case and kernel, as far as cases have run."""
    found: dict[str, dict[str, str]] = json.loads(report.read_text()) if report.exists() else {}
    return found


def write_summary(
    out: Path, facts: dict[str, Any], steps: Sequence[Step], tables: Sequence[Path] = ()
) -> None:
    """Write summary.json and summary.md, with the tables of the benchmark."""
    tests, exact = read_tests(out / "tests.xml"), read_exact(out / "exact.json")
    content = {
        "machine": facts,
        "steps": [asdict(step) | {"verdict": step.verdict} for step in steps],
        "exact": exact,
        "tests": asdict(tests),
    }
    (out / "summary.json").write_text(json.dumps(content, indent=1) + "\n")
    lines = [f"# {', '.join(facts['gpus'])}", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items() if name != "gpus"]
    lines += ["", "| step | seconds | verdict |", "|---|---:|---|"]
    lines += [f"| {step.name} | {step.seconds:.0f} | {step.verdict} |" for step in steps]
    wrong = {case: found for case, found in exact.items() if found}
    lines += ["", f"{len(exact)} cases compared, {len(wrong)} wrong.", ""]
    lines += [
        f"- wrong: `{case}`, `{name}`: {_first_line(why)}"
        for case, found in wrong.items()
        for name, why in found.items()
    ]
    failed, skipped = tests.failed or {}, tests.skipped or {}
    lines += ["", f"{tests.passed} tests passed, {len(failed)} failed, {len(skipped)} skipped.", ""]
    for title, named in (("failed", failed), ("skipped", skipped)):
        lines += [f"- {title}: `{name}`: {_first_line(why)}" for name, why in named.items()]
    for table in tables:
        lines += ["", table.read_text()]
    (out / "summary.md").write_text("\n".join(lines) + "\n")


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "")[:200]


if __name__ == "__main__":
    sys.exit(main())
