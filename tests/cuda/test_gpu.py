"""What the driver says is what is found; what is missing is said, with what to do."""

import dataclasses
import re
import subprocess
from pathlib import Path

import pytest

from relay_int8.machine.gpu import Gpu, GpuNeeds, Gpus, installed_gpus, misfit

pytestmark = pytest.mark.fast

SOURCE = Path(__file__).parent / "fake_driver.c"
H200 = Gpu(name="NVIDIA H200", architecture="sm_90", memory_bytes=140 << 30, multiprocessors=132)
P40 = Gpu(name="Tesla P40", architecture="sm_61", memory_bytes=24 << 30, multiprocessors=30)
B200 = Gpu(name="NVIDIA B200", architecture="sm_100", memory_bytes=180 << 30, multiprocessors=148)
NEEDS = GpuNeeds(
    architectures=("sm_61", "sm_80"),
    ptx_architecture="sm_80",
    ptx_version="8.5",
    driver="13.0",
    memory_bytes=1 << 30,
)


@pytest.fixture(scope="module")
def driver(tmp_path_factory) -> str:
    library = tmp_path_factory.mktemp("driver") / "libfake.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(SOURCE)], check=True)
    return str(library)


def gpus(*devices: Gpu, driver: str = "13.0") -> Gpus:
    return Gpus(devices=devices, driver=driver)


def test_what_the_driver_says_is_found(driver, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_DRIVER", "13020")
    monkeypatch.setenv(
        "FAKE_CUDA_DEVICES", "NVIDIA H200:90:140:132;Tesla P40:61:24:30;NVIDIA B200:100:180:148"
    )
    found = installed_gpus(driver)
    assert found == gpus(H200, P40, B200, driver="13.2")
    assert found.architectures == ("sm_90", "sm_61", "sm_100")
    assert str(H200) == "NVIDIA H200 (sm_90, 140.0 GiB)"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("100", "does not start: it sees no GPU; look at nvidia-smi and at CUDA_VISIBLE_DEVICES"),
        ("803", "does not start: cuInit failed with CUDA error 803; look at nvidia-smi"),
        ("0", "the NVIDIA driver sees no GPU; look at nvidia-smi"),
    ],
)
def test_a_driver_without_gpus(driver, monkeypatch, answer, problem):
    monkeypatch.setenv("FAKE_CUDA", answer)
    found = installed_gpus(driver)
    assert not found.devices and problem in found.problem


def test_no_driver(tmp_path):
    absent = installed_gpus(str(tmp_path / "libcuda.so.1"))
    assert "no NVIDIA driver" in absent.problem and "docker run --gpus all" in absent.problem
    assert "it is built for NVIDIA GPUs, and there is no NVIDIA" in str(misfit(NEEDS, absent))


def test_a_library_without_the_functions_is_no_driver(tmp_path):
    empty = tmp_path / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-o", str(empty), "-x", "c", "/dev/null"], check=True)
    assert "no NVIDIA driver" in installed_gpus(str(empty)).problem


@pytest.mark.parametrize(
    ("architecture", "fits"),
    [
        ("sm_52", False),  # older than all code and the PTX
        ("sm_60", False),  # of the generation of sm_61, but older
        ("sm_61", True),
        ("sm_62", True),
        ("sm_75", False),
        ("sm_80", True),
        ("sm_89", True),  # runs code of sm_80
        ("sm_90", True),  # PTX
        ("sm_120", True),
    ],
)
def test_code_within_a_generation_and_ptx_on_all_newer(architecture, fits):
    device = dataclasses.replace(H200, architecture=architecture)
    assert (misfit(NEEDS, gpus(device)) is None) == fits


@pytest.mark.parametrize(
    ("installed", "number", "message"),
    [
        (gpus(H200), 1, r"GPU 1 was asked for, there are 0: NVIDIA H200 \(sm_90, 140.0 GiB\)"),
        (gpus(H200, driver="12.9"), 0, "needs a driver for CUDA 13.0 or newer.*serves CUDA 12.9"),
        (
            gpus(H200, driver="12.9"),
            0,
            "branch 580 or newer.*package cuda-compat-13-0, which serves",
        ),
        (
            gpus(dataclasses.replace(H200, architecture="sm_70")),
            0,
            "build it for architecture sm_70",
        ),
        (gpus(dataclasses.replace(H200, memory_bytes=1 << 29)), 0, "needs 1.0 GiB of memory"),
    ],
)
def test_what_does_not_fit_is_said(installed, number, message):
    assert re.search(message, str(misfit(NEEDS, installed, number)))
    assert misfit(NEEDS, gpus(H200, P40), number) is None
