"""TVM's runtime is found, and what it lacks for GPUs is said."""

import subprocess
import sys

import numpy as np
import pytest

from relay_int8.errors import ArtifactError
from relay_int8.runtime import tvm_runtime
from relay_int8.runtime.tvm_runtime import RuntimeDevice
from schedules.cuda.device import cudart

pytestmark = pytest.mark.fast


@pytest.fixture
def without_cudart(monkeypatch):
    """No CUDA on this computer, whatever is installed."""
    for module in (cudart, tvm_runtime):
        monkeypatch.setattr(module, "CUDART", "libcudart.so.none")


def test_without_cudart_the_extra_is_named(without_cudart):
    with pytest.raises(
        ArtifactError, match=r"libcudart.so.none cannot be loaded.*'relay-int8\[cuda\]'"
    ):
        tvm_runtime.load_gpu_runtime()


def test_cudart_of_the_package_is_loaded(without_cudart, monkeypatch, tmp_path):
    """Any library does here; the next thing that is missing is TVM's own."""
    packaged = tmp_path / "nvidia" / "cu13" / "lib" / cudart.CUDART
    packaged.parent.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(tvm_runtime, "_folders", lambda _: [tmp_path])
    packaged.write_text("no library")
    with pytest.raises(ArtifactError, match=r"libcudart.so.none cannot be loaded"):
        tvm_runtime.load_gpu_runtime()
    source = ["-x", "c", "/dev/null"]
    subprocess.run(["cc", "-shared", "-o", str(packaged), *source], check=True)
    with pytest.raises(ArtifactError, match=r"libtvm_runtime.so not found"):
        tvm_runtime.load_gpu_runtime()


def test_a_tvm_without_cuda(monkeypatch, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libtvm_runtime.so").touch()
    monkeypatch.setattr(cudart, "CUDART", "libm.so.6")
    monkeypatch.setattr(tvm_runtime, "_folders", lambda _: [tmp_path])
    with pytest.raises(
        ArtifactError, match=r"cannot be loaded.*apache-tvm that was built with CUDA"
    ):
        tvm_runtime.load_gpu_runtime()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.int8).reshape(2, 3, 4).transpose(2, 0, 1),
        np.float32(3.5).reshape(()),
        np.zeros((0, 3), np.float32),
        np.array([True, False]),
    ],
    ids=["not contiguous", "scalar", "empty", "bool"],
)
def test_memory_goes_there_and_back(array):
    device = RuntimeDevice()
    tensor = device.put(array)
    back = device.get(tensor)
    assert back.dtype == array.dtype and back.shape == array.shape
    np.testing.assert_array_equal(back, array)
    device.wait()
