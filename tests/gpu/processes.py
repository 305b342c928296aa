"""Processes that use the GPU: each has a context of its own, so that no fault outlives its test."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LIMIT_S = 600
GPUS = """
import json
from relay_int8.machine.gpu import installed_gpus

found = installed_gpus()
print(json.dumps([found.problem, list(found.architectures)]))
"""
COMMAND = "from relay_int8.cli import app; app()"


def python(code: str, *arguments: object) -> str:
    """Return what a program prints; it fails the test if it fails."""
    done = run(code, *arguments)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def command(*arguments: object) -> str:
    """Return what ``relay-int8`` prints."""
    return python(COMMAND, *arguments)


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program in the project's root."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


@functools.cache
def gpus() -> tuple[str, tuple[str, ...]]:
    """Return why there is no GPU, or "", and the architectures of those that there are.

    Asked in another process: a driver that was started is of no use to children that are forked.
    """
    problem, architectures = json.loads(python(GPUS).splitlines()[-1])
    return problem, tuple(architectures)


def last_line(output: str) -> Any:
    """Return the JSON that a program prints last."""
    return json.loads(output.splitlines()[-1])
