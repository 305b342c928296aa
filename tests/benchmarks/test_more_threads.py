"""The model of runs on more threads: parts of kernels, and what each thread gets of them."""

import pytest
from tvm.script import tirx as T

import relay_int8
from benchmarks import more_threads
from benchmarks.more_threads import Loop, loops_of, predicted, predictions, times_of
from tests.parallel_network import parallel_artifact

pytestmark = pytest.mark.fast


@T.prim_func(s_tir=True)
def kernel(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    for i in T.serial(8):
        y[i] = x[i]
    for i in T.parallel(6):
        for j in T.serial(4):
            for k in T.vectorized(16):
                y[k] = x[k] + x[i] * x[j]


def test_parts_of_a_kernel():
    assert loops_of(kernel) == [Loop(1, 8), Loop(6, 24)]


@pytest.mark.parametrize(
    ("threads", "share"), [(1, 1), (2, 1 / 2), (4, 2 / 6), (6, 1 / 6), (9, 1 / 6)]
)
def test_a_thread_takes_whole_tasks(threads, share):
    assert Loop(6, 24).share(threads) == share
    assert Loop(1, 8).share(threads) == 1


def test_a_run():
    parts = [([Loop(1, 8), Loop(6, 24)], 32.0), ([Loop(1, 5)], 3.0)]
    found = predicted(parts, 7000, 4)
    assert found.one_thread_us == 35
    assert found.kernels_us == pytest.approx(8 + 24 / 3 + 3)
    assert found.launches_us == pytest.approx(more_threads.LAUNCH_US + 4 * more_threads.THREAD_US)
    assert found.run_us == found.kernels_us + found.launches_us


def test_a_network(tmp_path):
    parallel_artifact(tmp_path)
    model = relay_int8.load_model(tmp_path / "net.onnx")
    network = relay_int8.quantize(model, [relay_int8.random_inputs(model.inputs)])
    times = times_of(network, tmp_path, 2)
    found = dict(predictions(network, times, (2, 4, 16)))
    assert all(each.one_thread_us == sum(times.values()) for each in found.values())
    assert found[2].kernels_us > found[4].kernels_us >= found[16].kernels_us
    assert found[4].kernels_us >= found[4].one_thread_us / 4
    with pytest.raises(RuntimeError, match="1 kernels are others for 2 threads"):
        dict(predictions(network, {**times, "another": 1.0}, (2,)))
