"""A folder with all that checks a GPU, for a computer where nothing can be installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN_SOURCES = ("benchmarks", "relay_int8", "schedules", "scripts")
SOURCES = (*RUN_SOURCES, "tests", "tuning_logs")
SITE, BENCH, EXACT = "site", "bench", "exact"
BATCHES = ("1", "16")
EXTRAS = ("cuda", "remote")
TEST_PACKAGES = ("pytest>=8",)
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


def pack(
    folder: Path, python: str, architecture: str, networks: Sequence[str], *, light: bool
) -> int:
    """Fill ``folder``, which must be new or empty; return an exit code.

    With ``light`` it has TVM's runtime and no compiler, and so none of the tests.
    """
    if folder.exists() and any(folder.iterdir()):
        print(f"error: {folder} is not empty; name a new folder", file=sys.stderr)
        return 1
    for name in RUN_SOURCES if light else SOURCES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    if not light:
        shutil.copy(ROOT / "pyproject.toml", folder)
        done = subprocess.run(pip_command(folder / SITE, python))
        if done.returncode:
            print(f"error: no packages for Python {python}; see above", file=sys.stderr)
            return done.returncode
    module, chosen = [sys.executable, "-m"], ["--arch", architecture]
    exact = [*module, "benchmarks.gpu.exactness", "--build", str(folder / EXACT), *chosen]
    bench = [*module, "benchmarks.gpu", "--build", str(folder / BENCH), *chosen]
    bench += ["--networks", *networks, "--batch", *BATCHES]
    bench += ["--python", python] if light else []
    for command in (exact, bench):
        done = subprocess.run(command, cwd=ROOT)
        if done.returncode:
            return done.returncode
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{folder}: {size / 2**20:.0f} MiB")
    return 0


def pip_command(site: Path, python: str) -> list[str]:
    """Return what puts this project's dependencies, for a Python, into a folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [one for name in EXTRAS for one in project["optional-dependencies"][name]]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"]
    command += ["--target", str(site), "--python-version", python, "--implementation", "cp"]
    command += ["--only-binary=:all:", *(f"--platform={name}" for name in PLATFORMS)]
    return [*command, *project["dependencies"], *extras, *TEST_PACKAGES]
