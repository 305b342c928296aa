"""Inputs are read where they lie, if kernels can; else memory that is kept holds a copy."""

import platform
import threading

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

import relay_int8
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.errors import ArtifactError, ConfigError
from relay_int8.runtime.artifact import save_artifact
from relay_int8.runtime.manifest import Manifest
from relay_int8.runtime.memory import Buffer, HostMemory
from relay_int8.runtime.tvm_runtime import ALIGNMENT, RuntimeDevice

pytestmark = pytest.mark.fast
INFO = TensorInfo(name="x", shape=(2, 16), dtype="float32")


@I.ir_module
class Net:
    @R.function
    def main(x: R.Tensor((2, 16), "float32")):
        with R.dataflow():
            y = R.add(x, x)
            R.output(y)
        return (y, x)


class Foreign:
    """A tensor of another library."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def aligned(shape=(2, 16), dtype="float32", offset=0):
    """Return an array whose address is ``offset`` bytes behind a multiple of the alignment."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(count + 2 * ALIGNMENT, "uint8")
    start = -memory.ctypes.data % ALIGNMENT + offset
    array = memory[start : start + count].view(dtype).reshape(shape)
    array[...] = np.arange(array.size).reshape(shape)
    return array


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    executable = tvm.compile(relax.get_pipeline("zero")(Net), tvm.target.Target({"kind": "llvm"}))
    executable.export_library(str(folder / "library.so"))
    manifest = Manifest(
        inputs=(INFO,),
        outputs=(INFO, TensorInfo(name="same", shape=(2, 16), dtype="float32")),
        machine=platform.machine(),
        cpu_flags=(),
        target={"kind": "llvm"},
        model_digest="0" * 64,
    )
    save_artifact(folder / "net.ri8", (folder / "library.so").read_bytes(), manifest)
    return relay_int8.load(folder / "net.ri8")


def test_an_aligned_array_is_not_copied():
    memory, x = HostMemory(RuntimeDevice()), aligned()
    assert memory.argument("x", x).data_ptr() == x.ctypes.data


@pytest.mark.parametrize(
    "x",
    [
        aligned(offset=4),
        aligned((16, 2)).T,
        aligned()[:, ::-1],
        aligned(dtype="int8", offset=1),
        aligned((0, 16)),
    ],
    ids=["misaligned", "transposed", "backwards", "bytes", "empty"],
)
def test_others_are_copied_to_the_same_memory_each_time(x):
    memory = HostMemory(RuntimeDevice())
    first = memory.argument("x", x).data_ptr()
    x += 1
    second = memory.argument("x", x)
    assert first == second.data_ptr() != x.ctypes.data
    np.testing.assert_array_equal(RuntimeDevice().get(second), x)


def test_memory_that_nobody_may_write_is_copied():
    x = aligned()
    x.flags.writeable = False
    tensor = HostMemory(RuntimeDevice()).argument("x", x)
    assert tensor.data_ptr() != x.ctypes.data
    np.testing.assert_array_equal(RuntimeDevice().get(tensor), x)


def test_a_buffer_grows_and_never_shrinks():
    buffer = Buffer(RuntimeDevice())
    large = buffer.tensor((4, 8), "float32").data_ptr()
    assert buffer.tensor((3, 8), "float32").data_ptr() == large
    assert buffer.tensor((4, 8), "int8").data_ptr() == large
    assert buffer.tensor((4096, 8), "float32").shape == (4096, 8)
    array = buffer.array((3,), "int32")
    assert buffer.array((3,), "int32") is array  # made once: that takes as long as a small layer
    array[:] = 7
    np.testing.assert_array_equal(RuntimeDevice().get(buffer.tensor((3,), "int32")), [7, 7, 7])


@pytest.mark.parametrize(
    "given", [aligned(), aligned(offset=8), Foreign(aligned()), tvm_ffi.from_dlpack(aligned())]
)
def test_tensors_of_any_library_run(module, given):
    outputs = module.run(given)
    np.testing.assert_array_equal(outputs["x"], 2 * aligned())
    assert all(isinstance(output, np.ndarray) for output in outputs.values())


def test_what_is_enqueued_is_read_by_others_without_a_copy(module):
    outputs = module.enqueue(aligned(offset=4))
    module.wait()
    view = np.from_dlpack(outputs["x"])
    assert view.ctypes.data == outputs["x"].data_ptr()
    module.run(aligned() * 3)  # writes into other memory
    np.testing.assert_array_equal(view, 2 * aligned())


def test_an_output_that_is_an_input_outlives_the_next_run(module):
    same = module.enqueue(aligned(offset=4))["same"]
    module.run(aligned(offset=4) * 3)
    np.testing.assert_array_equal(np.from_dlpack(same), aligned())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Foreign(aligned(), (2, 1)), "input x: lies on GPU 1, the artifact runs on the CPU; copy"),
        (Foreign(aligned(), (8, 0)), "input x: lies on device 8:0 of DLPack, the artifact runs on"),
        (Foreign(aligned((2, 15))), "input x: shape 2 x 15 given, 2 x 16 expected"),
        (Foreign(aligned(dtype="int32")), "input x: type int32 given, float32 expected"),
        ([1.0], "input x: list given, a NumPy array expected"),
        (
            np.ones((3, 16), np.float32),
            r"2 x 16 expected; give one batch a run, or .*max_batch=...\)",
        ),
        (np.ones((2, 15), np.float32), "2 x 16 expected$"),
    ],
)
def test_what_does_not_fit_is_refused(module, given, message):
    with pytest.raises(ArtifactError, match=message):
        module.run(given)


@pytest.mark.parametrize("method", ["__dlpack__", "__dlpack_device__"])
def test_a_tensor_that_its_library_does_not_give(module, method):
    def refuse(*_self, **_options):
        raise ValueError("requires grad")

    kept = type("Kept", (Foreign,), {method: refuse})(aligned())
    with pytest.raises(ArtifactError, match="input x: its tensor cannot be read by DLPack: requi"):
        module.run(kept)


def test_a_cpu_has_no_streams(module):
    with pytest.raises(ConfigError, match="runs on the CPU, which has no streams; leave stream"):
        module.run(aligned(), stream=7)


def test_threads_take_turns(module):
    """All of them use the same memory; each gets its own numbers."""
    wrong = []

    def many(factor):
        for _ in range(50):
            found = module.run(aligned(offset=4) * factor)["x"]
            wrong.extend([factor] * (not np.array_equal(found, 2 * factor * aligned())))

    threads = [threading.Thread(target=many, args=(factor,)) for factor in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
