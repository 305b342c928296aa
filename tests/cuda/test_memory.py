"""Memory, streams and captures of runs on a GPU, counted by the stand-in for CUDA's runtime."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import relay_int8
from tests.cuda.fake_gpu import FakeGpu, noted_sources
from tests.nvidia import needs_compiler
from tests.onnx_models import model

pytestmark = needs_compiler
MOST = 4
START = """
import ctypes, json, os, sys
from unittest.mock import patch
import numpy as np
import tvm_ffi
import relay_int8
from relay_int8.errors import ArtifactError, ConfigError
from relay_int8.runtime.cuda_runtime import CudaRuntime
from relay_int8.runtime.tvm_runtime import RuntimeDevice

artifact, inputs, expected = sys.argv[1], np.load(sys.argv[2]), np.load(sys.argv[3])
driver = ctypes.CDLL("libcuda.so.1")

def count(name):
    return ctypes.c_int.in_dll(driver, f"fake_{name}").value

def counts():
    return [count(name) for name in ("mallocs", "host_mallocs", "copies", "pageable_copies")]

def equal(found, index):
    np.testing.assert_array_equal(found, expected[index : index + len(found)])

"""


@dataclasses.dataclass(frozen=True)
class Case:
    """A network of a fixed and of an open batch, and a GPU that runs each."""

    folder: Path
    gpus: dict[str, FakeGpu]

    def run(self, code: str, name: str = "fixed", **sees: str) -> list:
        """Return what a program prints last, as JSON."""
        files = [str(self.folder / file) for file in (f"{name}.ri8", "x.npy", "y.npy")]
        done = subprocess.run(
            [sys.executable, "-c", START + code, *files],
            env=os.environ | self.gpus[name].environment() | sees,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])


def network() -> onnx.ModelProto:
    """Three small convolutions and a pooling, so that there is something to capture."""
    rng = np.random.default_rng(0)
    weights = {
        "a": rng.normal(size=(8, 4, 3, 3)).astype("float32"),
        "b": rng.normal(size=(8, 8, 1, 1)).astype("float32"),
    }
    node = onnx.helper.make_node
    nodes = [
        node("Conv", ["x", "a"], ["p"], pads=[1, 1, 1, 1]),
        node("Relu", ["p"], ["q"]),
        node("Conv", ["q", "b"], ["r"]),
        node("Relu", ["r"], ["s"]),
        node("Conv", ["s", "b"], ["t"]),
        node("GlobalAveragePool", ["t"], ["y"]),
    ]
    return model(nodes, {"x": ("n", 4, 8, 8)}, {"y": None}, weights)


@pytest.fixture(scope="module")
def case(tmp_path_factory) -> Case:
    folder = tmp_path_factory.mktemp("memory")
    onnx.save(network(), folder / "m.onnx")
    images = np.random.default_rng(1).normal(size=(MOST, 4, 8, 8)).astype("float32")
    np.save(folder / "x.npy", images)
    kinds = {
        "cpu": ({}, {"batch": 1}),
        "fixed": ({"target": "cuda", "arch": "sm_80"}, {"batch": 1}),
        "open": ({"target": "cuda", "arch": "sm_80", "max_batch": MOST}, {}),
    }
    gpus = {}
    for name, (options, imports) in kinds.items():
        with noted_sources() as sources:
            relay_int8.compile_model(
                folder / "m.onnx",
                [images[:1], images[1:2]],
                folder / f"{name}.ri8",
                samples=0,
                imports=relay_int8.ImportOptions(**imports),
                options=relay_int8.BuildOptions(**options),
            )
        if sources:
            gpus[name] = FakeGpu.make(folder / f"fake_{name}", sources[-1])
    cpu = relay_int8.load(folder / "cpu.ri8")
    outputs = [next(iter(cpu.run(image[None]).values())) for image in images]
    np.save(folder / "y.npy", np.concatenate(outputs))
    return Case(folder, gpus)


def test_from_the_third_run_on_nothing_is_allocated(case):
    """One copy goes in, one out, both of pinned memory. Two outputs take turns: TVM keeps the last."""
    found = case.run("""
module, seen = relay_int8.load(artifact), []
for index in range(4):
    equal(module.run(inputs[index : index + 1])["y"], index)
    seen.append(counts())
print(json.dumps(seen))
""")
    mallocs, host, copies, pageable = np.diff(found, axis=0).T.tolist()
    assert mallocs == [1, 0, 0]
    assert host == pageable == [0, 0, 0]
    assert copies == [2, 2, 2]


def test_tensors_of_the_gpu_go_in_and_out_without_a_copy(case):
    found = case.run("""
class Foreign:
    def __init__(self, tensor):
        self.tensor, self.streams = tensor, []

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        return self.tensor.__dlpack__(stream=stream)

module, gpu = relay_int8.load(artifact), RuntimeDevice("cuda")
module.run(inputs[:1])
given = [Foreign(gpu.put(inputs[index : index + 1])) for index in range(4)]
stream = CudaRuntime(0).stream()
before = counts()
kept = [module.enqueue(each, stream=stream)["y"] for each in given[:3]]
kept.append(module.enqueue(given[3])["y"])
module.wait(stream)
after = counts()
for index, tensor in enumerate(kept):
    assert tensor.__dlpack_device__() == (2, 0)
    equal(gpu.get(tensor), index)
taken = [each.streams for each in given]
assert taken == [[stream], [stream], [stream], [1]], (taken, stream)
print(json.dumps([before[2:], after[2:]]))
""")
    assert found[0] == found[1]


def test_what_cannot_be_read_where_it_lies(case):
    case.run("""
module, gpu = relay_int8.load(artifact), RuntimeDevice("cuda")
whole = gpu.put(np.concatenate([np.zeros(4, "float32"), inputs[0].ravel()]))
view = tvm_ffi.get_global_func("runtime.TVMTensorCreateView")
shape = tvm_ffi.Shape((1, 4, 8, 8))
before = count("copies")
equal(module.run(view(whole, shape, tvm_ffi.dtype("float32"), 16))["y"], 0)
assert count("copies") == before + 2  # on the GPU, to where it is aligned; and the output
for value, message in (
    (RuntimeDevice("cuda", 1).put(inputs[:1]), "lies on GPU 1, the artifact runs on GPU 0; copy"),
    (gpu.put(inputs[:1].astype("int32")), "type int32 given, float32 expected"),
    (gpu.put(inputs[:2]), "shape 2 x 4 x 8 x 8 given, 1 x 4 x 8 x 8 expected"),
):
    try:
        module.run(value)
    except ArtifactError as error:
        assert message in str(error), error
    else:
        raise AssertionError(message)
try:
    module.run(inputs[:1], stream="default")
except ConfigError as error:
    assert "stream is a str; give a handle" in str(error)
print("[]")
""")


def test_streams_are_named_in_any_way(case):
    found = case.run("""
class OfTorch:
    cuda_stream = CudaRuntime(0).stream()

class OfCuda:
    def __cuda_stream__(self):
        return 0, OfTorch.cuda_stream

module = relay_int8.load(artifact)
for stream in (None, 0, OfTorch.cuda_stream, OfTorch(), OfCuda()):
    equal(module.run(inputs[:1], stream=stream)["y"], 0)
with tvm_ffi.use_raw_stream(tvm_ffi.device("cuda", 0), OfTorch.cuda_stream):
    equal(module.run(inputs[:1])["y"], 0)
assert tvm_ffi.get_raw_stream(tvm_ffi.device("cuda", 0)) == 0
assert all(each > 0 for each in module.time(inputs[:1], 2, warmup=1, stream=OfTorch()))
print(json.dumps([count("captures")]))
""")
    assert found == [1]


def test_several_streams(case):
    found = case.run("""
with relay_int8.Streams(artifact, 2) as streams:
    for _ in range(5):
        for index, outputs in enumerate(streams.map(image[None] for image in inputs)):
            equal(outputs["y"], index)
    streams.time(inputs[:1], 2, warmup=1)
print(json.dumps([count("pageable_copies"), count("captures")]))
""")
    assert found[1] == 2  # each has graphs of its own


def test_one_launch_by_one_cannot_be_streams(case):
    case.run("""
from relay_int8.runtime import streams
manifest = relay_int8.read_manifest(artifact)
manifest.gpu_code["graph"]["captured"] = []
with patch.object(streams, "read_manifest", lambda path: manifest):
    try:
        relay_int8.Streams(artifact, 2)
    except ConfigError as error:
        assert "streams of a GPU need a CUDA graph; build it with BuildOptions(cuda_graphs=True)" in str(error)
        print("[]")
""")


CAPTURE = """
from relay_int8.runtime import execution
from contextlib import nullcontext

if os.environ.get("CAPTURED_BY_TVM"):
    execution.regions_run_by = lambda run: nullcontext()
module = relay_int8.load(artifact)
try:
    for index in range(2):
        equal(module.run(inputs[index : index + 1])["y"], index)
except RuntimeError as error:
    print(error, file=sys.stderr)
print(json.dumps([count("captures"), count("graphs"), count("disturbances")]))
"""
"""Two runs, during whose capture another thread allocates, and copies on the default stream."""


def test_a_capture_forbids_nothing_to_other_threads(case):
    assert case.run(CAPTURE, FAKE_CUDA_NEIGHBOUR="1") == [1, 1, 0]


def test_a_capture_of_tvm_does(case):
    captures, graphs, disturbances = case.run(CAPTURE, FAKE_CUDA_NEIGHBOUR="1", CAPTURED_BY_TVM="1")
    assert captures and not graphs and disturbances == 2


def test_an_open_batch_is_captured_once_for_each_size(case):
    manifest = relay_int8.read_manifest(case.folder / "open.ri8")
    graph = manifest.gpu_code["graph"]
    assert len(graph["captured"]) >= 2 and len(graph["launched"]) <= 2
    found = case.run(
        """
module, seen = relay_int8.load(artifact), []
for batch in (1, 3, 4, 3, 1, 4, 3):
    equal(module.run(inputs[:batch])["y"], 0)
    seen.append([count("captures"), count("graphs"), *counts()])
print(json.dumps(seen))
""",
        "open",
    )
    captures, graphs = np.array(found).T[:2].tolist()
    assert captures == [1, 2, 3, 3, 3, 3, 3]
    assert graphs == [0, 0, 0, 1, 2, 3, 4]
    assert not np.diff(np.array(found)[3:, 2:4], axis=0).any()  # nothing is allocated any more
