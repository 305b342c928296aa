"""CUDA's runtime library on a computer without a toolkit: that of the package, or a stand-in."""

import os
import subprocess
import sys

import pytest

from tests.cuda.fake_gpu import RUNTIME, FakeGpu

LOAD = """
import ctypes
import tvm
from relay_int8.errors import ArtifactError
from relay_int8.runtime.tvm_runtime import load_gpu_runtime
from schedules.cuda.device.runtime import load_cuda_runtime

load_cuda_runtime()
try:
    load_gpu_runtime()
    print("runs", tvm.cuda(0).exist)
except ArtifactError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    return FakeGpu.make(tmp_path_factory.mktemp("gpu") / "fake", "")


def said(environment):
    """Return what a process says that compiles for GPUs first and wants to run on one then."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_what_compiles_loads_the_package(gpu):
    """The driver has none of its functions; a stand-in would say that there is no GPU."""
    symbols = ["nm", "-D", "--defined-only", str(gpu.folder / "libcuda.so.1")]
    functions = subprocess.run(symbols, check=True, capture_output=True, text=True).stdout
    assert " cuInit" in functions and " cudaMalloc" not in functions
    assert said(gpu.environment()) == "runs True"


def test_what_stands_in_for_it_runs_nothing(gpu):
    """A process that compiled with a stand-in is told what to install, as one that did not."""
    without = gpu.environment() | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    assert said(without).startswith(f"{RUNTIME} cannot be loaded; TVM drives GPUs with it: pip")
