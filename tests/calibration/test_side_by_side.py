"""Several threads of one process find what one finds, bit for bit, in the order of the images."""

import threading

import numpy as np
import pytest

from relay_int8.calibration import calibrate
from relay_int8.calibration.mapper import OneByOne, observe_ranges
from relay_int8.calibration.methods import find_method
from relay_int8.calibration.network import CalibrationNetwork
from relay_int8.calibration.side_by_side import SideBySide, by_all_cores
from relay_int8.compiler.kernel_library import sharing_kernels
from relay_int8.errors import CalibrationError
from relay_int8.runtime.tvm_runtime import threads, wanted_threads
from schedules.targets import native_target
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast
SCHEMES = {"x": "asymmetric", "y": "u8"}


def _network(method: str) -> CalibrationNetwork:
    net = NetworkWriter((1, 3, 9, 11))
    mod = net.module(net.relu("y", net.conv("c", net.x, 16, 3)))
    return CalibrationNetwork(mod, SCHEMES, ["x"], native_target(), find_method(method))


@pytest.mark.parametrize("method", ["kl", "kl-tensorrt-onepass"])
def test_the_table_is_that_of_one_thread(method):
    images = np.random.default_rng(3).standard_t(3, size=(30, 1, 3, 9, 11)).astype(np.float32)
    data = [{"x": image} for image in images]
    with sharing_kernels():
        mappers = (OneByOne(_network(method)), SideBySide(_network(method), threads=3))
        one, several = (
            calibrate(mapper, SCHEMES, data, method=method, keep_histograms=True).to_json()
            for mapper in mappers
        )
    assert one == several


class _Noting:
    """A runner that notes which threads call it."""

    def __init__(self) -> None:
        self.both = threading.Barrier(2)
        self.pools: list[int] = []

    def statistics(self, image):
        self.both.wait(timeout=10)
        self.pools.append(threads())
        return image["x"]


def test_two_images_run_at_a_time_each_on_one_thread():
    runner = _Noting()
    images = [{"x": np.full(1, number)} for number in range(8)]
    results = SideBySide(runner, threads=2).map(lambda: observe_ranges, images)
    assert [int(result.statistics[0][0]) for result in results] == list(range(8))
    assert runner.pools == [1] * 8


def test_errors_arrive():
    class _Failing:
        def statistics(self, image):
            raise CalibrationError("no")

    results = SideBySide(_Failing(), threads=2).map(lambda: observe_ranges, [{}] * 9)
    with pytest.raises(CalibrationError, match="no"):
        list(results)


@pytest.mark.parametrize(
    ("variable", "threads", "cores"), [("1", 1, 1), ("3", 3, 1), ("9", 4, 2), ("64", 4, 16)]
)
def test_as_many_cores_as_are_wanted(monkeypatch, variable, threads, cores):
    monkeypatch.setenv("TVM_NUM_THREADS", variable)
    assert wanted_threads() == int(variable)
    mapper = by_all_cores(_Noting())
    assert getattr(mapper, "threads", 1) == threads
    assert getattr(mapper, "cores", 1) == cores


def test_a_thread_may_have_several_cores():
    runner = _Noting()
    results = SideBySide(runner, threads=2, cores=2).map(
        lambda: observe_ranges, [{"x": np.zeros(1)}] * 4
    )
    assert len(list(results)) == 4
    assert runner.pools == [2] * 4
