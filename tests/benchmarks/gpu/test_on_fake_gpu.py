"""The whole benchmark on a GPU that is none: TVM's runtime for GPUs, kernels emulated here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu import __main__ as bench_gpu
from relay_int8.tuning.trial_log import read_manifest
from tests.benchmarks.gpu.fake_clock import with_clock
from tests.cuda.fake_gpu import FakeGpu, noted_sources
from tests.nvidia import require_compiler

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
BUILD = "--arch sm_80 --networks mobilenet_v2 --batch 1 --image-size 32 --cut"


@pytest.mark.slow
def test_build_and_run(full, tmp_path):
    if not full:
        pytest.skip("needs --full")
    require_compiler()
    build, result = tmp_path / "build", tmp_path / "result.json"
    with noted_sources() as sources:
        assert bench_gpu.main(["--build", str(build), *BUILD.split()]) == 0
    gpu = FakeGpu.make(tmp_path / "gpu", sources[-1])
    with_clock(gpu)
    command = [sys.executable, "-m", "benchmarks.gpu", "--run", str(build), "--json", str(result)]
    rules = ["--rounds", "2", "--turn", "0.01"]
    done = subprocess.run(
        [*command, *rules],
        cwd=ROOT,
        env=os.environ | gpu.environment(devices="Fake GPU:80:1"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    content = json.loads(result.read_text())
    (cell,) = content["cells"]
    assert cell["wrong"] == {}
    assert cell["checked"] > 10
    assert {"relay-int8", "relay-int8-captured", "relay-int8-calls"} <= set(cell["turns"])
    assert {layer["bound"] for layer in cell["layers"]} <= {"compute", "memory", "launch"}
    assert content["facts"]["device"] == "Fake GPU" and content["facts"]["architecture"] == "sm_80"
    assert content["measured"]["mma_macs_s"] > 0

    logs = tmp_path / "logs"
    assert bench_gpu.main(["--record", str(result), "--tuning-logs", str(logs)]) == 0
    manifest = read_manifest(logs / "fake-gpu-2-sm" / "mobilenet-v2-b1")
    assert manifest.target["arch"] == "sm_80" and manifest.device == "Fake GPU"
