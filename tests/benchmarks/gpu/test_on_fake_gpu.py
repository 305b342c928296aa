"""The whole benchmark on a GPU that is none: TVM's runtime for GPUs, kernels emulated here."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu import __main__ as bench_gpu
from relay_int8.tuning.trial_log import read_manifest
from tests.cuda.fake_gpu import FakeGpu, noted_sources

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
EMULATOR = ROOT / "tests" / "cuda"
BUILD = "--arch sm_80 --networks mobilenet_v2 --batch 1 --image-size 32 --cut"


def with_clock(gpu):
    """Give the driver of ``gpu`` what the benchmark asks of it."""
    folder = gpu.folder
    driver = folder / "libcuda.so.1"
    renamed = ["-x", "c", "-DcuDeviceGetAttribute=known_attribute", "-c"]
    files = [str(EMULATOR / "fake_driver.c"), "-o", str(folder / "known.o")]
    subprocess.run(["gcc", "-fPIC", "-w", *renamed, *files], check=True)
    files = [
        str(EMULATOR / "fake_launches.cc"),
        str(EMULATOR / "fake_runtime.cc"),  # which the clock calls; the runtime has its own
        str(HERE / "fake_clock.cc"),
        str(folder / "known.o"),
    ]
    (folder / "driver").write_text("{ global: cu[A-Z]*; *fake*; count_*; launch_*; local: *; };")
    script = f"-Wl,-soname,{driver.name},--version-script,{folder / 'driver'}"
    options = ["-std=c++17", "-fPIC", "-w", "-shared", script, "-ldl"]
    subprocess.run(["g++", *files, *options, "-o", str(driver)], check=True)


@pytest.mark.slow
def test_build_and_run(full, tmp_path):
    if not full:
        pytest.skip("needs --full")
    if importlib.util.find_spec("nvidia") is None:
        pytest.skip("needs NVIDIA's compilers, of the extra cuda")
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
    manifest = read_manifest(logs / "fake-gpu" / "mobilenet-v2-b1")
    assert manifest.target["arch"] == "sm_80" and manifest.device == "Fake GPU"
