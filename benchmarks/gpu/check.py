"""Everything that only a GPU can show, in twenty minutes: the tests marked gpu, then the benchmark.

  --out DIR    run it all here; DIR holds what was found, whatever fails: summary.md, summary.json,
               tests.xml (JUnit), bench.json, bench.md, and a log of each step
  --pack DIR   fill DIR with all that this needs, for a computer where nothing can be installed:
               the project, its packages for --python, and a build of the benchmark for --arch

There, with a Python of that version and an NVIDIA driver for CUDA 13:

    PYTHON=python3 DIR/scripts/gpu_check --out results

The tests quantize and tune, so they need a C compiler; the benchmark of a packed folder does not.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
SOURCES = ("benchmarks", "relay_int8", "schedules", "scripts", "tests", "tuning_logs")
SITE, BENCH = "site", "bench"
EXTRAS = ("cuda", "remote")
TEST_PACKAGES = ("pytest>=8",)
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
NETWORKS, BATCHES = ("resnet50", "mobilenet_v2"), ("1", "16")
MINUTES = 20.0
TESTS_SHARE = 0.5  # of the time; what is left of it is the benchmark's
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
        return pack(options.pack, options.python, options.arch, options.networks)
    return check(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/gpu_check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, metavar="DIR")
    what.add_argument("--pack", type=Path, metavar="DIR")
    add("--minutes", type=float, default=MINUTES, help=f"for everything ({MINUTES:.0f})")
    add("--networks", nargs="+", default=NETWORKS, help="of the benchmark")
    add("--tests", nargs="+", default=["tests/gpu"], help="files that pytest is given (tests/gpu)")
    add("--no-bench", action="store_true", help="the tests alone")
    version = ".".join(platform.python_version_tuple()[:2])
    add("--python", default=version, help=f"that the packed folder is for ({version})")
    add("--arch", default="sm_90", help="that the packed benchmark is built for (sm_90)")
    return parser


def check(options: argparse.Namespace) -> int:
    """Run all steps, and write down what each has found as soon as it ends."""
    out, start = options.out.resolve(), time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    end = start + 60 * options.minutes - GRACE_S
    facts, steps = machine(), list[Step]()

    def _run(name: str, command: Sequence[str], until: float = end) -> None:
        print(f"== {name}", flush=True)
        steps.append(run_step(name, command, until - time.monotonic(), out / f"{name}.log"))
        print(f"   {steps[-1].verdict}, {steps[-1].seconds:.0f} s", flush=True)
        write_summary(out, facts, steps)

    module = [sys.executable, "-m"]
    report = [f"--junitxml={out / 'tests.xml'}", "-p", "no:cacheprovider"]
    middle = start + 60 * options.minutes * (1 if options.no_bench else TESTS_SHARE) - GRACE_S
    _run("tests", [*module, "pytest", "-m", "gpu", *report, *options.tests], middle)
    if not options.no_bench:
        bench, built = [*module, "benchmarks.gpu"], ROOT / BENCH
        chosen = ["--networks", *options.networks, "--batch", *BATCHES]
        if not built.exists():
            built = out / BENCH
            # The NumPy oracle of every tensor would take longer than there is; a pack has it.
            build = ["--build", str(built), "--arch", "native", "--no-oracle"]
            _run("build", [*bench, *build, *chosen])
        files = ["--json", str(out / "bench.json"), "--markdown", str(out / "bench.md")]
        _run("bench", [*bench, "--run", str(built), *files])
    print(out / "summary.md")
    return 0 if all(step.exit_code == 0 for step in steps) else 1


def run_step(name: str, command: Sequence[str], seconds: float, log: Path) -> Step:
    """Run a program for so long; then it is interrupted, and at last killed, with its children."""
    start = time.monotonic()
    with log.open("w") as file:
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


def write_summary(out: Path, facts: dict[str, Any], steps: Sequence[Step]) -> None:
    """Write summary.json and summary.md."""
    tests = read_tests(out / "tests.xml")
    content = {
        "machine": facts,
        "steps": [asdict(step) | {"verdict": step.verdict} for step in steps],
        "tests": asdict(tests),
    }
    (out / "summary.json").write_text(json.dumps(content, indent=1) + "\n")
    lines = [f"# {', '.join(facts['gpus'])}", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items() if name != "gpus"]
    lines += ["", "| step | seconds | verdict |", "|---|---:|---|"]
    lines += [f"| {step.name} | {step.seconds:.0f} | {step.verdict} |" for step in steps]
    failed, skipped = tests.failed or {}, tests.skipped or {}
    lines += ["", f"{tests.passed} tests passed, {len(failed)} failed, {len(skipped)} skipped.", ""]
    for title, named in (("failed", failed), ("skipped", skipped)):
        lines += [f"- {title}: `{name}`: {_first_line(why)}" for name, why in named.items()]
    bench = out / "bench.md"
    if bench.exists():
        lines += ["", bench.read_text()]
    (out / "summary.md").write_text("\n".join(lines) + "\n")


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "")[:200]


def pack(folder: Path, python: str, arch: str, networks: Sequence[str]) -> int:
    """Fill a folder for a computer where nothing can be installed; return an exit code."""
    if folder.exists() and any(folder.iterdir()):
        print(f"error: {folder} is not empty; name a new folder", file=sys.stderr)
        return 1
    for name in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    done = subprocess.run(pip_command(folder / SITE, python))
    if done.returncode:
        print(f"error: no packages for Python {python}; see above", file=sys.stderr)
        return done.returncode
    build = [sys.executable, "-m", "benchmarks.gpu", "--build", str(folder / BENCH)]
    chosen = ["--arch", arch, "--networks", *networks, "--batch", *BATCHES]
    return subprocess.run([*build, *chosen], cwd=ROOT).returncode


def pip_command(site: Path, python: str) -> list[str]:
    """Return what puts this project's dependencies, for a Python, into a folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [one for name in EXTRAS for one in project["optional-dependencies"][name]]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"]
    command += ["--target", str(site), "--python-version", python, "--implementation", "cp"]
    command += ["--only-binary=:all:", *(f"--platform={name}" for name in PLATFORMS)]
    return [*command, *project["dependencies"], *extras, *TEST_PACKAGES]


if __name__ == "__main__":
    sys.exit(main())
