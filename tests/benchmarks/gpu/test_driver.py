"""The calls of NVIDIA's driver, on a library that stands in for it."""

import ctypes
import subprocess
from pathlib import Path

import pytest

from benchmarks.gpu import peaks
from benchmarks.gpu.peaks import data_sheet, measure
from relay_int8.machine.cuda_driver import Driver, DriverError

STUB = Path(__file__).with_name("stub_driver.c")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-w", str(STUB), "-o", str(path)], check=True)
    return path


@pytest.fixture
def calls(library):
    """Return what says which calls there were since the last time."""
    stub = ctypes.CDLL(str(library))
    stub.stub_calls.restype = ctypes.c_char_p
    stub.stub_fail(0)
    stub.stub_forget()

    def said():
        text = stub.stub_calls().decode().split()
        stub.stub_forget()
        return text

    said.fail = stub.stub_fail
    return said


@pytest.fixture
def driver(library, calls):
    return Driver(library=str(library))


def test_what_the_gpu_is(driver):
    facts = driver.facts()
    assert (facts.name, facts.architecture, facts.cuda) == ("Stub GPU", "sm_90", "13.1")
    assert (facts.multiprocessors, facts.clock_mhz) == (132, 1980)
    assert (facts.memory_bus_bits, facts.memory_clock_mhz) == (6144, 3201)
    assert (facts.l2_bytes, facts.memory_bytes) == (60 << 20, 64 << 30)


def test_events_stand_around_all_runs(driver, calls):
    seen = []
    assert driver.seconds(lambda: seen.append(calls()), 3) == pytest.approx(8.5e-3)
    assert seen == [["start"], [], []]
    assert calls() == ["end", "wait"]


def test_a_graph_replays_what_was_captured(driver, calls):
    seen = []
    replay = driver.capture(lambda: seen.append(calls()))
    replay()
    assert seen == [["begin"]]
    assert calls() == ["finish", "replay"]


def test_memory_is_zero_copied_read_and_freed(driver, calls):
    with driver.memory(16) as a, driver.memory(16) as b:
        assert driver.read(b, 16) == bytes(16)
        driver.write(a, b"0123456789abcdef")
        driver.copy(b, a, 16)
        assert driver.read(b, 16) == b"0123456789abcdef"
    assert calls() == ["synchronize", "copy", "synchronize"] + ["synchronize", "free"] * 2


def test_an_error_says_which_call_and_why(driver, calls):
    with pytest.raises(DriverError, match="cuModuleLoadData failed with CUDA error 1: an error of"):
        driver.kernel(b"no such image", "nothing")
    with pytest.raises(DriverError, match="the driver has no cuNothing"):
        driver.call("cuNothing")
    calls.fail(700)
    with pytest.raises(DriverError, match="cuLaunchKernel failed with CUDA error 700"):
        driver.launch(driver.kernel(b"image", "nothing"), 1, 32, ())


def test_a_gpu_that_is_not_there(library, calls):
    with pytest.raises(DriverError, match="CUDA error 101: invalid device ordinal"):
        Driver(number=1, library=str(library)).facts()


def test_peaks_follow_from_time_cycles_and_what_a_block_multiplies(driver, monkeypatch):
    monkeypatch.setattr(peaks, "COPY_BYTES", 1 << 20)
    facts = driver.facts()
    found = measure(driver, facts, b"image")
    # 16 chains of 20,000 dp4a of 4 products in 1,024 threads of 132 blocks in 8.5 ms
    assert found.dp4a_macs_s == pytest.approx(16 * 20_000 * 4 * 1024 * 132 / 8.5e-3)
    assert found.mma_macs_s == pytest.approx(8 * 20_000 * 4096 * 32 * 132 / 8.5e-3)
    assert found.sm_mhz == pytest.approx(1980)
    assert found.copy_bytes_s == pytest.approx(2 * (1 << 20) * 4 / 8.5e-3)
    assert found.launch_s == pytest.approx(8.5e-3 / 1000)


def test_the_data_sheet_of_an_h200(driver):
    sheet = data_sheet(driver.facts())
    assert sheet.mma_macs_s == pytest.approx(1979e12 / 2, rel=0.1)  # at 1830 MHz, there
    assert sheet.copy_bytes_s == pytest.approx(4.8e12, rel=0.03)
    assert sheet.dp4a_macs_s == pytest.approx(66.9e12, rel=0.01)


@pytest.mark.fast
def test_without_a_driver_it_says_so():
    with pytest.raises(DriverError, match="no NVIDIA driver here"):
        Driver(library="libcuda-that-is-nowhere.so.1")
