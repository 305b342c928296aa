"""Kernels are timed as graphs of many launches, or one by one behind a flush."""

import contextlib

import pytest
import tvm_ffi

from relay_int8.machine import kernel_clock
from relay_int8.machine.kernel_clock import LAUNCHES, flushed_seconds, kernel_seconds

pytestmark = pytest.mark.fast


class Gpu:
    """A GPU on which a launch by the host takes 8 us, one of a graph 2 us, a graph itself 4 us."""

    capture_stream = 7

    def __init__(self, monkeypatch):
        self.said, self.busy_s, self.is_capturing = [], 0.0, False
        monkeypatch.setattr(tvm_ffi, "use_raw_stream", self.use_stream)

    @contextlib.contextmanager
    def use_stream(self, place, stream):
        self.is_capturing = stream == 7
        yield
        self.is_capturing = False

    def launch(self):
        self.said.append("captured" if self.is_capturing else "launch")
        self.busy_s += 0 if self.is_capturing else 8e-6

    def flush(self):
        self.said.append("flush")

    def synchronize(self):
        self.said.append("wait")

    def capture(self, enqueue):
        before = len(self.said)
        enqueue()
        count = self.said[before:].count("captured")
        del self.said[before:]

        def replay():
            self.said.append(f"graph of {count}")
            self.busy_s += 4e-6 + count * 2e-6

        return replay

    def seconds(self, launch, runs):
        before = self.busy_s
        for _ in range(runs):
            launch()
        return self.busy_s - before


def test_short_kernels_are_replayed(monkeypatch):
    gpu = Gpu(monkeypatch)
    times = kernel_seconds(gpu, "cuda", gpu.launch, repeats=3, least_s=1e-3)
    assert times == pytest.approx([2.2e-6] * 3)
    assert set(gpu.said[LAUNCHES + 1 :]) == {f"graph of {LAUNCHES}"}
    assert len(gpu.said) == LAUNCHES + 2 + 3 * round(1e-3 / 44e-6)


def test_each_run_is_behind_a_flush(monkeypatch):
    gpu = Gpu(monkeypatch)
    times = flushed_seconds(gpu, "cuda", gpu.launch, gpu.flush, repeats=2)
    assert times == pytest.approx([6e-6] * 2)
    assert gpu.said == ["launch", "wait", "flush", "graph of 1", "flush", "graph of 1"]


def test_the_benchmark_times_kernels_by_the_same_function():
    from benchmarks.gpu import network

    assert network.kernel_seconds is kernel_clock.kernel_seconds
