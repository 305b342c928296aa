"""Damaged MXNet files end in our error or in an import: no crash, no hang, no gigabyte."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COUNT = 1000


@pytest.mark.parametrize("kind", ["params", "symbol"])
def test_damaged_files(tmp_path, kind):
    done = subprocess.run(
        [sys.executable, "-m", "tests.frontend.mutate_mxnet", tmp_path, kind, str(COUNT)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    ends = json.loads(done.stdout)
    assert sum(ends.values()) == COUNT
    assert min(ends.values()) > COUNT / 50, ends  # some of both, or the mutations prove little
