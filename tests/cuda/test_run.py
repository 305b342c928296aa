"""Artifacts for GPUs, found, loaded, run and replayed on a GPU that is none: equal to the CPU's."""

import dataclasses
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from typer.testing import CliRunner

import relay_int8
from relay_int8.calibration import CalibrationTable
from relay_int8.cli import app
from relay_int8.demo import MODEL, load_images
from relay_int8.errors import DeployError
from relay_int8.remote.address import Endpoint
from relay_int8.remote.deploy import deploy
from relay_int8.runtime.artifact import extract, save_artifact
from relay_int8.runtime.manifest import Manifest
from tests.cuda.fake_gpu import FakeGpu, noted_sources
from tests.nvidia import needs_compiler
from tests.remote import processes

pytestmark = needs_compiler
RUN = """
import ctypes, json, sys
import numpy as np
import relay_int8

artifact, inputs, outputs, gpu = sys.argv[1:]
module = relay_int8.load(artifact, gpu=int(gpu))
np.save(outputs, np.concatenate([module.run(image[None])["logits"] for image in np.load(inputs)]))
driver = ctypes.CDLL("libcuda.so.1")
counts = {name: ctypes.c_int.in_dll(driver, name).value for name in ("fake_launches", "fake_graphs")}
assert "tvm" not in sys.modules
print(json.dumps(counts))
"""
KERNELS = """
import sys
from pathlib import Path
import numpy as np
from relay_int8.remote.kernel_check import check_kernels, expected_results
from relay_int8.remote.kernel_run import run_kernels
from relay_int8.runtime.artifact import extract, extracted

gpu, cpu, inputs = sys.argv[1:]
library = Path(gpu + ".so")
device, image = extract(gpu, library), np.load(inputs)[:1]
with extracted(cpu) as contents:
    reference, host, weights = contents.manifest, contents.library, contents.weights
    names = [kernel.function for kernel in reference.kernels]
    results = run_kernels(host, "cpu", [image], names, {}, weights=weights, all_results=True)
expected = expected_results(reference, results, device)
names = [kernel.function for kernel in device.kernels]
found = run_kernels(library, "cuda", [image], names, expected)
assert not check_kernels(device.kernels, expected, found).differences
expected[2] = expected[2].copy()
expected[2].flat[0] += 1  # as if the GPU had been wrong by one
found = run_kernels(library, "cuda", [image], names, expected)
fault = check_kernels(device.kernels, expected, found).fault
print(len(expected), fault.index, fault.different, fault.result.name)
"""
"""Kernels of a GPU that captures graphs, each with what the CPU computes before it."""


@dataclasses.dataclass(frozen=True)
class Case:
    """Two artifacts of one quantized model, for GPUs and for this CPU, and a GPU that can run it."""

    folder: Path
    gpu: FakeGpu
    images: np.ndarray
    expected: np.ndarray

    def start(
        self, name: str, number: int, sees: dict[str, object]
    ) -> subprocess.CompletedProcess[str]:
        """Run an artifact in a process of its own."""
        files = [str(self.folder / file) for file in (name, "images.npy", "outputs.npy")]
        return subprocess.run(
            [sys.executable, "-c", RUN, *files, str(number)],
            env=os.environ | self.gpu.environment(**sees),
            capture_output=True,
            text=True,
        )

    def run(self, name="gpu.ri8", number=0, **sees) -> dict[str, int]:
        """Return what was launched."""
        done = self.start(name, number, sees)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def fault(self, name="gpu.ri8", number=0, **sees) -> str:
        """Return the error."""
        done = self.start(name, number, sees)
        assert done.returncode == 1, done.stdout
        return done.stderr.splitlines()[-1]


@pytest.fixture(scope="module")
def case(tmp_path_factory) -> Case:
    folder = tmp_path_factory.mktemp("gpu")
    images = load_images()
    options = {"imports": relay_int8.ImportOptions(batch=1), "samples": 0}
    relay_int8.compile_model(
        MODEL,
        [images.calibration[:10]],
        folder / "cpu.ri8",
        save_table=folder / "table.json",
        **options,
    )
    table = CalibrationTable.load(folder / "table.json")
    with noted_sources() as sources:
        for name, graphs in (("gpu.ri8", True), ("launches.ri8", False)):
            relay_int8.compile_model(
                MODEL,
                table,
                folder / name,
                report=folder / f"{name}.json",
                **options,
                options=relay_int8.BuildOptions(target="cuda", arch="sm_80", cuda_graphs=graphs),
            )
    assert sources[0] == sources[1]
    some = images.test[:4]
    np.save(folder / "images.npy", some)
    cpu = relay_int8.load(folder / "cpu.ri8")
    expected = np.concatenate([cpu.run(image[None])["logits"] for image in some])
    return Case(folder, FakeGpu.make(folder / "fake", sources[0]), some, expected)


def kernels_of(case: Case) -> int:
    graph = relay_int8.read_manifest(case.folder / "gpu.ri8").gpu_code["graph"]
    return len(graph["captured"] + graph["launched"])


def test_a_replayed_graph_gives_the_integers_of_the_cpu(case):
    counts = case.run()
    np.testing.assert_array_equal(np.load(case.folder / "outputs.npy"), case.expected)
    # The first run launches all and captures; the others launch the graph, and two kernels.
    runs = len(case.images)
    assert counts == {
        "fake_launches": kernels_of(case) + 2 * (runs - 1),
        "fake_graphs": runs - 1,
    }


def test_without_graphs_every_kernel_is_launched(case):
    counts = case.run("launches.ri8")
    np.testing.assert_array_equal(np.load(case.folder / "outputs.npy"), case.expected)
    assert counts == {"fake_launches": kernels_of(case) * len(case.images), "fake_graphs": 0}


def test_the_second_gpu(case):
    case.run(number=1, devices="Old GPU:52:8;New GPU:90:80")  # by PTX
    np.testing.assert_array_equal(np.load(case.folder / "outputs.npy"), case.expected)


def test_kernel_by_kernel_it_gives_what_the_cpu_gives(case):
    files = [str(case.folder / name) for name in ("gpu.ri8", "cpu.ri8", "images.npy")]
    done = subprocess.run(
        [sys.executable, "-c", KERNELS, *files],
        env=os.environ | case.gpu.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    compared, index, different, name = done.stdout.split()
    kernels = relay_int8.read_manifest(case.folder / "gpu.ri8").kernels
    assert int(compared) > len(kernels) / 2
    assert (index, different, name) == ("2", "1", kernels[2].name)


@pytest.mark.parametrize(
    ("sees", "message"),
    [
        ({"devices": ""}, "it is built for NVIDIA GPUs, and the NVIDIA driver sees no GPU"),
        (
            {"driver": 12040},
            "needs a driver for CUDA 13.0 or newer, the driver here serves CUDA 12.4",
        ),
        (
            {"devices": "Tesla T4:75:15"},
            "holds code for sm_80, and PTX for sm_80 and newer; this GPU is Tesla T4 (sm_75, 15.0 "
            "GiB); build it for architecture sm_75, or for all",
        ),
    ],
)
def test_what_does_not_fit_is_refused(case, sees, message):
    fault = case.fault(**sees)
    assert fault.startswith("relay_int8.errors.ArtifactError") and message in fault


def test_the_manifest_says_what_is_needed(case):
    manifest = relay_int8.read_manifest(case.folder / "gpu.ri8")
    assert manifest.gpu is not None
    assert (manifest.gpu.architectures, manifest.gpu.driver) == (("sm_80",), "13.0")
    assert manifest.gpu.memory_bytes > 10_000
    assert Manifest.from_json(manifest.to_json()) == manifest
    assert relay_int8.read_manifest(case.folder / "cpu.ri8").gpu is None


def test_the_report_says_the_same(case):
    report = json.loads((case.folder / "gpu.ri8.json").read_text())
    manifest = relay_int8.read_manifest(case.folder / "gpu.ri8")
    assert report["gpu"] == manifest.gpu_code
    assert report["gpu"]["needs"] == json.loads(manifest.to_json())["gpu"]
    tensors = {name for kernel in report["gpu"]["kernels"].values() for name in kernel["tensors"]}
    launches = [kernel["launch"] for kernel in report["gpu"]["kernels"].values()]
    assert all(
        launch["blocks"] and 32 <= launch["threads"] <= 1024 for launch in launches if launch
    )
    assert any(launches)
    for kernel in report["gpu"]["kernels"].values():
        held = [use["resident"] for use in kernel["usage"].values() if kernel["launch"]]
        assert all(1 <= resident <= 32 for resident in held)
    layers = {layer["name"] for layer in report["layers"] if layer["kernel"]}
    assert layers <= tensors
    assert not json.loads((case.folder / "launches.ri8.json").read_text())["gpu"]["graph"][
        "captured"
    ]


def test_a_gpu_with_too_little_memory(case):
    manifest = extract(case.folder / "gpu.ri8", case.folder / "library.so")
    needs = dataclasses.replace(manifest.gpu, memory_bytes=17 << 30)
    large = case.folder / "large.ri8"
    save_artifact(
        large, (case.folder / "library.so").read_bytes(), dataclasses.replace(manifest, gpu=needs)
    )
    assert "needs 17.0 GiB of memory, this GPU is Fake GPU" in case.fault(large.name)


@pytest.mark.parametrize("left_bytes", [4096, 160_000])
def test_a_gpu_whose_memory_others_hold(case, monkeypatch, left_bytes):
    monkeypatch.setenv("FAKE_CUDA_MEMORY_BYTES", str(left_bytes))
    fault = case.fault()
    assert fault.startswith("relay_int8.errors.ArtifactError")
    assert "gpu.ri8: GPU 0 has no memory left; it needs" in fault and "nvidia-smi" in fault


@contextmanager
def serving(case: Case, folder: Path, **sees):
    """Serve on a computer that sees the GPU; this one does not."""
    with patch.dict(os.environ, case.gpu.environment(**sees)):
        server = processes.server(folder, "--key", "word")
        served = server.__enter__()
    try:
        served.wait_until_serving()
        yield Endpoint(address=served.address, key="word")
    finally:
        server.__exit__(None, None, None)


@pytest.mark.slow
def test_deploy_runs_it_on_the_gpu_of_another_computer(case, tmp_path, full):
    if not full:
        pytest.skip("needs --full")
    with serving(case, tmp_path) as place:
        result = deploy(
            case.folder / "gpu.ri8",
            place,
            inputs={"image": case.images[:1]},
            reference=case.folder / "cpu.ri8",
            repeats=2,
        )
    np.testing.assert_array_equal(result.outputs["logits"], case.expected[:1])
    assert [found.different for found in result.comparisons] == [0]
    assert [str(gpu) for gpu in result.device.gpus.devices] == ["Fake GPU (sm_80, 16.0 GiB)"]
    assert result.device.gpus.driver == "13.0"
    assert len(result.times_ms) == 2 and min(result.times_ms) > 0


def test_deploy_refuses_a_gpu_that_does_not_fit(case, tmp_path):
    with (
        serving(case, tmp_path, devices="Tesla T4:75:15") as place,
        pytest.raises(DeployError, match=r"the artifact does not fit: it holds code for sm_80.*T4"),
    ):
        deploy(case.folder / "gpu.ri8", place, reference=case.folder / "cpu.ri8")


def test_inspect_shows_needs_and_kernels(case):
    result = CliRunner().invoke(app, ["inspect", str(case.folder / "gpu.ri8")])
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "GPUs sm_80, newer ones by PTX 8.5" in lines
    assert "kernels chosen for sm_80, the oldest of them" in lines
    assert "driver for CUDA 13.0 or newer" in lines
    every = kernels_of(case)
    assert f"CUDA graph {every - 2} of {every} launches are one" in lines
    assert any(line.startswith("registers at most ") and "spilled: none" in line for line in lines)
    rows = [line.split() for line in lines if "_kernel sm_80 " in line]
    assert sum(len(row[8:]) for row in rows) == every  # layers of one shape share a kernel
    assert all(0 < int(row[2]) <= 255 and row[3] == row[4] == "0" for row in rows)


def test_an_architecture_that_is_not_known(tmp_path):
    options = ["--data", str(tmp_path), "-o", str(tmp_path / "n.ri8"), "--target", "cuda"]
    result = CliRunner().invoke(app, ["quantize", str(MODEL), *options, "--arch", "sm_37"])
    assert result.exit_code == 1
    assert "'sm_37' is not known; choose native, all, or some of sm_61" in result.output
