"""What a user does, on a real GPU: quantize, load, run, tune, serve, deploy; graphs, and what fails.

The network is the demo's. What comes out must be what the artifact for the CPU gives, bit for bit.
"""

import dataclasses
import json
import time

import numpy as np
import pytest

import relay_int8
from relay_int8.demo import MODEL, load_images
from relay_int8.runtime.artifact import extracted, save_artifact
from tests.gpu.processes import command, gpus, python, run
from tests.remote import processes

pytestmark = pytest.mark.gpu
RUNS = 5
RUN = """
import sys
import numpy as np
import relay_int8

images, outputs, *artifacts = sys.argv[1:]
modules = [relay_int8.load(artifact) for artifact in artifacts]
found = [
    [module.run(image[None])["logits"] for module in modules] for image in np.load(images)
]
np.save(outputs, np.stack([np.concatenate(each) for each in found], axis=1))
"""
"""Images through several artifacts in turns; outputs as (artifacts, images, classes)."""
FILL = """
import ctypes, sys
import numpy as np
import relay_int8
from schedules.cuda.device.cudart import CUDART, load_cudart

artifact, images = sys.argv[1:]
module = relay_int8.load(artifact)
load_cudart()
runtime = ctypes.CDLL(CUDART)
free, total, taken = ctypes.c_size_t(), ctypes.c_size_t(), []
step = 1 << 34
while step >= 256:
    place = ctypes.c_void_p()
    if runtime.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(step)):
        runtime.cudaGetLastError()
        step //= 2
    else:
        taken.append(place)
image = np.load(images)[:1]
try:
    module.run(image)
    print("ran")
except Exception as error:
    print(type(error).__name__, error)
for place in taken:
    runtime.cudaFree(place)
print(module.run(image)["logits"].shape)
"""
"""A network that is loaded, then no memory left, then memory again."""

ENQUEUE = """
import sys
import numpy as np
import relay_int8
from relay_int8.runtime.cuda_runtime import CudaRuntime
from relay_int8.runtime.tvm_runtime import RuntimeDevice

images, outputs, artifact = sys.argv[1:]
images, module, gpu = np.load(images), relay_int8.load(artifact), RuntimeDevice("cuda")
streams = [CudaRuntime(0).stream() for _ in range(2)]
given = [gpu.put(image[None]) for image in images]
kept = [
    module.enqueue(tensor, stream=streams[index % 2])["logits"]
    for index, tensor in enumerate(given)
]
for stream in streams:
    module.wait(stream)
on_gpu = np.concatenate([gpu.get(tensor) for tensor in kept])
with relay_int8.Streams(artifact, 2) as running:
    several = np.concatenate([found["logits"] for found in running.map(i[None] for i in images)])
np.save(outputs, np.stack([on_gpu, several]))
"""
"""Tensors of the GPU on two streams by turns, then a network on each of two streams."""
OF_TORCH = """
import sys
import numpy as np
import relay_int8

images, outputs, artifact = sys.argv[1:]
module = relay_int8.load(artifact)
try:
    import torch
    device = torch.device("cuda")
    stream = torch.cuda.Stream()
except (ImportError, RuntimeError, AssertionError):
    print("no torch")
    sys.exit()
with torch.cuda.stream(stream):
    found = []
    for image in torch.from_numpy(np.load(images)).to(device):
        logits = module.enqueue(image[None].contiguous(), stream=stream)["logits"]
        found.append(torch.from_dlpack(logits) * 1)
    whole = torch.cat(found)
stream.synchronize()
np.save(outputs, whole.cpu().numpy()[None])
print("torch")
"""
NEIGHBOUR = """
import ctypes, sys, threading
import numpy as np
import relay_int8
from schedules.cuda.device.cudart import CUDART

images, outputs, artifact = sys.argv[1:]
module, over, faults = relay_int8.load(artifact), threading.Event(), []
runtime = ctypes.CDLL(CUDART)

def allocate():
    place = ctypes.c_void_p()
    while not over.is_set():
        error = runtime.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(4096))
        if not error and hasattr(runtime, "cudaMemset"):  # the stand-in has none
            error = runtime.cudaMemset(place, 0, ctypes.c_size_t(4096))
        if error:
            faults.append(error)
        else:
            runtime.cudaFree(place)

thread = threading.Thread(target=allocate)
thread.start()
try:
    found = [module.run(image[None])["logits"] for image in np.load(images)]
finally:
    over.set()
    thread.join()
assert not faults, faults[:5]
np.save(outputs, np.concatenate(found)[None])
"""
"""The first run, which captures a graph, while another thread uses the GPU in its own way."""


@dataclasses.dataclass(frozen=True)
class Files:
    """What the tests read: artifacts of one quantized model, images, and what the CPU gives."""

    folder: object
    expected: np.ndarray

    def __getattr__(self, name: str):
        return self.folder / f"{name}.ri8"

    @property
    def images(self):
        return self.folder / "images.npy"


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Files:
    folder = tmp_path_factory.mktemp("gpu")
    digits = load_images()
    np.save(folder / "calibration.npy", digits.calibration[:20])
    np.save(folder / "images.npy", digits.test[:RUNS])
    data = ["--data", folder / "calibration.npy", "--save-table", folder / "table.json"]
    command("quantize", MODEL, "--batch", 1, *data, "-o", folder / "cpu.ri8")
    table = ["--batch", 1, "--table", folder / "table.json", "--target", "cuda"]
    command("quantize", MODEL, *table, "-o", folder / "graph.ri8")
    command("quantize", MODEL, *table, "--no-cuda-graphs", "-o", folder / "calls.ri8")
    cpu = relay_int8.load(folder / "cpu.ri8")
    outputs = [cpu.run(image[None])["logits"] for image in digits.test[:RUNS]]
    return Files(folder, np.concatenate(outputs))


def outputs(files: Files, *artifacts, program: str = RUN) -> np.ndarray:
    python(program, files.images, files.folder / "outputs.npy", *artifacts)
    return np.load(files.folder / "outputs.npy")


def test_native_is_what_is_here(files):
    needs = relay_int8.read_manifest(files.graph).gpu
    assert needs is not None and set(gpus()[1]) >= set(needs.architectures)


@pytest.mark.parametrize("name", ["graph", "calls"])
def test_run_gives_the_integers_of_the_cpu(files, name):
    """With a graph, the first run captures it and the others replay it."""
    captured = relay_int8.read_manifest(getattr(files, name)).gpu_code["graph"]["captured"]
    assert bool(captured) == (name == "graph")
    (found,) = outputs(files, getattr(files, name))
    np.testing.assert_array_equal(found, files.expected)


def test_two_artifacts_in_one_process(files):
    for found in outputs(files, files.graph, files.calls):
        np.testing.assert_array_equal(found, files.expected)


@pytest.mark.parametrize("program", [ENQUEUE, NEIGHBOUR], ids=["enqueued", "neighbour"])
def test_streams_and_threads(files, program):
    for found in outputs(files, files.graph, program=program):
        np.testing.assert_array_equal(found, files.expected)


def test_tensors_of_pytorch(files):
    said = python(OF_TORCH, files.images, files.folder / "torch.npy", files.graph)
    if "no torch" in said:
        pytest.skip("needs PyTorch with CUDA")
    np.testing.assert_array_equal(np.load(files.folder / "torch.npy")[0], files.expected)


def test_bench_and_inspect(files):
    (row,) = json.loads(command("bench", files.graph, "--repeats", 20, "--json"))
    assert 0 < row["median_ms"] < 1000
    assert "CUDA graph" in command("inspect", files.graph)


def test_out_of_memory_is_said_and_survived(files):
    said, after = python(FILL, files.calls, files.images).splitlines()[-2:]
    assert said.startswith("ArtifactError") and "GPU 0 has no memory left" in said
    assert after == "(1, 10)"


def test_an_architecture_that_does_not_fit(files):
    with extracted(files.graph) as contents:
        manifest, library = contents.manifest, contents.library.read_bytes()
    newer = dataclasses.replace(manifest.gpu, architectures=("sm_999",), ptx_architecture="sm_999")
    save_artifact(files.folder / "newer.ri8", library, dataclasses.replace(manifest, gpu=newer))
    done = run(RUN, files.images, files.folder / "none.npy", files.newer)
    assert done.returncode == 1
    assert "holds code for sm_999" in done.stderr.splitlines()[-1]


def test_tune_then_build_with_what_was_found(files):
    logs = files.folder / "logs"
    options = ["--batch", 1, "--target", "cuda", "--min-repeat-ms", 1, "--name", "demo"]
    options += ["--search", "random", "--logs", logs]
    command("tune", MODEL, *options, "--trials", 2)
    command("tune", MODEL, *options, "--trials", 4, "--resume")
    table = ["--batch", 1, "--table", files.folder / "table.json", "--target", "cuda"]
    command("quantize", MODEL, *table, "--tuning-logs", logs, "-o", files.tuned)
    (found,) = outputs(files, files.tuned)
    np.testing.assert_array_equal(found, files.expected)


def test_deploy_to_a_server(files, tmp_path):
    with processes.server(tmp_path, "--key", "word") as served:
        served.wait_until_serving()
        where = ["--rpc", str(served.address), "--key", "word", "--reference", files.cpu]
        found = json.loads(command("deploy", files.graph, *where, "--repeats", 2, "--json"))
        assert [each["different"] for each in found["comparisons"]] == [0]
        assert found["device"]["gpus"]["devices"]
        before = time.perf_counter()
        command("deploy", files.calls, *where, "--repeats", 2)
        assert time.perf_counter() - before < 120
