"""Measuring behind a tracker: traps cost one trial, lost devices none while one is left."""

import threading

import pytest

from relay_int8.errors import DeployError
from relay_int8.machine.host import cpu_name
from relay_int8.remote.address import Endpoint
from relay_int8.tuning.batch import Timing
from relay_int8.tuning.measurer import ROUNDS
from relay_int8.tuning.remote_measurer import RemoteMeasurer
from schedules.targets import native_target, target_config
from tests.remote.processes import server, tvm_process, until
from tests.tuning import planted

THREADS = str(target_config(native_target())["num-cores"])
VERDICTS = {
    planted.RIGHT: "ok",
    planted.WRONG: "wrong",
    planted.REFUSED: "refused",
    planted.OVERRUN: "lost",
    planted.BROKEN: "failed",
    planted.ALSO_RIGHT: "ok",
}


@pytest.fixture(scope="module")
def rack(tmp_path_factory):
    """Two devices behind a tracker."""
    folder = tmp_path_factory.mktemp("rack")
    with tvm_process("tracker", folder / "tracker") as tracker:
        folders = [folder / name for name in ("one", "two")]
        for path in folders:
            path.mkdir()
        options = ["--tracker", str(tracker), "--key", "board", "--threads", THREADS]
        with server(folders[0], *options) as one, server(folders[1], *options) as two:
            for served in (one, two):
                served.wait_until_serving()
            yield Endpoint(address=tracker, tracker=True, key="board"), (one, two)


def devices(rack, **options):
    return RemoteMeasurer(
        options.pop("target", target_config(native_target())),
        rack,
        **{"timing": Timing(repeats=2, repeat_ms=1), "catalog": "tests.tuning.planted", **options},
    )


def test_every_trap_costs_one_trial(rack):
    candidates = [None, *((choice,) for choice in VERDICTS)]
    with devices(rack[0], devices=2) as measurer:
        results = measurer.measure(planted.TASK, candidates)
    assert [result.verdict for result in results] == ["ok", *VERDICTS.values()]
    assert all(served.text.count("connected from") for served in rack[1])
    for result in results:
        assert len(result.seconds) == (2 if result.verdict == "ok" else 0)


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """A device without a tracker."""
    with server(tmp_path_factory.mktemp("single"), "--threads", THREADS) as served:
        served.wait_until_serving()
        yield Endpoint(address=served.address)


def test_a_single_device_without_a_tracker(single):
    with devices(single) as measurer:
        assert measurer.describe().name == cpu_name()
        alone = measurer.measure(planted.TASK, [None, (planted.WRONG,)])
        both = measurer.compare(planted.TASK, [None, (planted.RIGHT,)])
        (default,) = measurer.defaults([planted.TASK])
    assert [result.verdict for result in (*alone, default)] == ["ok", "wrong", "ok"]
    assert [len(result.seconds) for result in both] == [ROUNDS, ROUNDS]


def test_a_device_of_another_number_of_threads_is_refused(single):
    target = target_config(native_target()) | {"num-cores": 63}
    with (
        devices(single, target=target) as measurer,
        pytest.raises(DeployError, match=f"the device runs {THREADS}; serve with 63 threads"),
    ):
        measurer.describe()


def test_lost_devices(rack):
    where, (one, two) = rack
    for served in (one, two):  # the crashes of before are over
        served.wait_until_serving(1 + served.text.count("starting it again"))
    long = Timing(repeats=10, repeat_ms=50)  # half a second, of which the end is lost
    found = []
    with devices(where, devices=2, timing=long, run_s=100) as measurer:
        candidates = [None, (planted.RIGHT,), (planted.WRONG,), (planted.ALSO_RIGHT,)]
        thread = threading.Thread(
            target=lambda: found.extend(measurer.measure(planted.TASK, candidates))
        )
        loads = one.text.count("load_module")
        thread.start()
        until(lambda: one.text.count("load_module") > loads, "run")
        one.process.kill()
        thread.join(120)
    verdicts = [result.verdict for result in found]
    assert verdicts == ["ok", "ok", "wrong", "ok"], [result.reason for result in found]

    two.process.kill()
    with (
        devices(where, patience_s=3) as measurer,
        pytest.raises(
            DeployError, match=r"key .board.: no device for 3 s .* TuneOptions\(resume=True\)"
        ),
    ):
        measurer.measure(planted.TASK, [None])
