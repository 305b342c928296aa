import multiprocessing
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.compare_systems import cores_for
from benchmarks.turn import run_for, run_together
from benchmarks.turns import racers
from tests.benchmarks.fake_systems import system

pytestmark = pytest.mark.fast


def start(loader, images):
    return (system(loader), Path("absent"), images, 1, cores_for(1))


def test_runs_until_the_time_is_over_and_divides_by_the_runs():
    calls = []
    turn = run_for(0.1, lambda: calls.append(time.sleep(0.03)))
    assert 1 <= len(calls) <= 4  # fewer where the computer is busy
    assert turn.wall_s * len(calls) >= 0.1
    assert turn.wall_s >= 0.03
    assert turn.cpu_s < turn.wall_s / 2


def test_a_run_that_takes_longer_than_its_turn_counts_once():
    calls = []
    run_for(0.0, lambda: calls.append(1))
    assert calls == [1]


def test_runs_at_the_same_time_count_together():
    calls = [[], []]
    turn = run_together(0.1, [lambda own=own: own.append(time.sleep(0.03)) for own in calls])
    assert all(1 <= len(own) <= 4 for own in calls)
    assert turn.wall_s * sum(map(len, calls)) >= 0.1
    assert turn.wall_s < 0.1  # of one of at least two


def test_processes_rest_but_in_their_turn_and_end_in_the_end():
    images = np.arange(4, dtype="float32")
    with racers({"a": start("Spinner", images)}) as (running, failures):
        (process,) = multiprocessing.active_children()
        assert failures == {}
        np.testing.assert_array_equal(running["a"].logits, images)
        for _ in range(2):
            assert running["a"].turn(0.05).wall_s >= 0.01
            before = cpu_ticks(process.pid)
            time.sleep(0.1)
            assert cpu_ticks(process.pid) == before
    assert not process.is_alive()


def test_a_system_that_cannot_be_loaded_does_not_stop_the_others(capfd):
    images = np.zeros(1, "float32")
    starts = {"a": start("broken", images), "b": start("Spinner", images)}
    with racers(starts) as (running, failures):
        assert list(running) == ["b"]
        assert failures == {"a": "its process ended with exit code 1, see standard error"}
    assert "absent cannot be loaded" in capfd.readouterr().err
    assert multiprocessing.active_children() == []


def cpu_ticks(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    assert fields[0] == "T"  # stopped
    return int(fields[11]) + int(fields[12])
