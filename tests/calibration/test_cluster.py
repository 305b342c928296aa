"""Calibration on a real local cluster of processes: the same table, also where one is killed."""

import contextlib
import os
import signal
import socket
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from relay_int8.calibration import calibrate
from relay_int8.calibration.cluster import DaskMapper, connected, shards
from relay_int8.errors import CalibrationError, ConfigError
from tests.calibration.array_runner import ArrayRunner

F = np.float32
TENSORS = {"x": "s8", "h": "u8", "y": "asymmetric"}


def images(count=24):
    rng = np.random.default_rng(7)
    return [{"x": rng.standard_t(3, size=(1, 2_000)).astype(F)} for _ in range(count)]


def network(flag, image):
    """The network; the worker that finds the file ``flag`` removes it, and dies."""
    if flag is not None:
        try:
            Path(flag).unlink()
        except FileNotFoundError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    h = np.maximum(image["x"], 0)
    return {"x": image["x"], "h": h, "y": h - F(0.25)}


def runner(flag=None):
    return ArrayRunner(partial(network, flag), ["h"])


def refusing():
    raise CalibrationError("this computer lacks avx512vnni")


def run(work, method):
    return calibrate(work, TENSORS, images(), method=method, keep_histograms=True).to_json()


def test_shards_keep_the_order():
    data = images(20)
    dealt = list(shards(data, 9 * 8_000))
    assert [len(shard) for shard in dealt] == [9, 9, 2]
    assert all(a is b for a, b in zip(chain.from_iterable(dealt), data, strict=True))


@pytest.fixture(scope="module")
def client():
    """Where another cluster has the port of Dask's own page already."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # some other program holds it: as good
            stack.enter_context(socket.create_server(("", 8787)))
        yield stack.enter_context(connected(None, 2))


def dealt_to(client, recipe=runner):
    return DaskMapper(client, recipe, shard_bytes=16_000)  # two images


@pytest.mark.slow
@pytest.mark.parametrize("method", ["kl-tensorrt", "kl-tensorrt-onepass", "moving-average"])
def test_workers_find_the_table_of_one_process(client, method, full):
    if method == "kl-tensorrt" and not full:
        pytest.skip("the one that loses a worker does the same")
    assert run(dealt_to(client), method) == run(runner(), method)


def test_a_worker_that_dies_costs_time_alone(client, tmp_path):
    flag = tmp_path / "die"
    flag.write_text("")
    found = run(dealt_to(client, partial(runner, str(flag))), "kl-tensorrt")
    assert not flag.exists()
    assert found == run(runner(), "kl-tensorrt")


def test_errors_of_workers_arrive_as_they_are(client):
    with pytest.raises(CalibrationError, match="this computer lacks"):
        run(dealt_to(client, refusing), "max")


def test_a_scheduler_is_connected_to(client):
    address = client.scheduler.address
    with connected(address, None) as other:
        assert run(dealt_to(other), "max") == run(runner(), "max")


def test_no_scheduler():
    with (
        pytest.raises(ConfigError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"),
        connected("tcp://127.0.0.1:9", None, timeout=1),
    ):
        pass
