"""The tests for a GPU on one that is none, as far as it goes: their own code is right.

Left out are most kernels, which the emulation runs elsewhere, and tuning, which takes minutes there.
"""

import os
import re
import subprocess
import sys

import pytest

from tests.cuda.fake_gpu import FakeGpu
from tests.gpu.processes import ROOT
from tests.nvidia import require_compiler


@pytest.mark.slow
def test_they_pass(full, tmp_path):
    if not full:
        pytest.skip("needs --full")
    require_compiler()
    gpu = FakeGpu.of_any_kernels(tmp_path / "fake")
    memory = {"FAKE_CUDA_MEMORY_BYTES": str(64 << 20)}
    chosen = (
        "tests/gpu/test_commands.py",
        "tests/gpu/test_kernels.py",
        "-k",
        "(not kernels and not tune and not pytorch) or dense_mma-sm_80",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *chosen],
        cwd=ROOT,
        env=os.environ | gpu.environment() | memory,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert re.search(r"\d+ passed", done.stdout) and "skipped" not in done.stdout, done.stdout
