"""kill -9 at any moment: what was acknowledged is there, once, and the rest is measured later."""

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tvm.s_tir.meta_schedule.database import JSONDatabase

from relay_int8.tuning.trial_log import read_trials
from tests.tuning.fake_device import database_lines

ROOT = Path(__file__).parents[2]
TRIALS = 200


def start(folder: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "tests.tuning.killed", str(folder), str(TRIALS)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def kill_soon(process: subprocess.Popen, seconds: float) -> list[str]:
    """Kill the tuner ``seconds`` after it starts to measure; return what it acknowledged."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(seconds)
    process.kill()
    lines = process.stdout.read().split("\n")
    process.wait()
    process.stdout.close()
    return lines[:-1]


@pytest.mark.slow
def test_every_acknowledged_trial_is_there_once(tmp_path, full):
    rng, acknowledged = random.Random(7), []
    for _ in range(10 if full else 3):
        acknowledged += kill_soon(start(tmp_path), rng.uniform(0.01, 0.5))
    seconds = 0.5
    while not acknowledged:  # a busy computer has measured nothing so soon
        seconds *= 2
        assert seconds < 60
        acknowledged += kill_soon(start(tmp_path), seconds)
    with start(tmp_path) as last:
        assert last.stdout is not None
        acknowledged += [line for line in last.stdout.read().splitlines() if line != "ready"]
    assert last.returncode == 0

    trials = read_trials(tmp_path)
    on_disk = Counter(trial.to_json() for trial in trials)
    assert all(on_disk[line] == count for line, count in Counter(acknowledged).items())
    candidates = Counter((t.task, t.choices) for t in trials if t.choices is not None)
    assert len(candidates) == TRIALS
    finalists = [count for count in candidates.values() if count > 1]
    assert max(candidates.values()) == 2
    assert len(finalists) == 6
    assert database_lines(tmp_path) == len(trials)
    assert len(JSONDatabase(work_dir=str(tmp_path)).get_all_tuning_records()) == len(trials)
