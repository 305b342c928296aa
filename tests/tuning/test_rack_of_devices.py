"""relay-int8 tune on a tracker's devices, one of them behind a proxy; they are lost one by one."""

import json
import subprocess
import sys

import pytest

from relay_int8.demo import MODEL
from relay_int8.tuning.trial_log import read_trials
from tests.remote.processes import CLI, START_S, running, server, tvm_process, until

COMMAND = (
    "tune", MODEL, "--batch", 1, "--name", "digits", "--search", "random", "--target", "x86-avx2",
    "--min-repeat-ms", 1, "--devices", 2, "--key", "board",
)  # fmt: skip


def tune(tracker, logs, *options):
    arguments = [*COMMAND, "--tracker", tracker, "--logs", logs, *options]
    return ["-c", CLI, *map(str, arguments)]


def trials_in(logs):
    found = [path.parent for path in logs.rglob("trials.jsonl")]
    return read_trials(found[0]) if found else []


def candidates(trials):
    return {(trial.task, trial.choices) for trial in trials if trial.choices is not None}


@pytest.mark.isa("avx2")
@pytest.mark.slow
def test_devices_are_lost_one_by_one(tmp_path, full):
    if not full:
        pytest.skip("needs --full")
    logs, said = tmp_path / "logs", tmp_path / "said"
    folders = [tmp_path / name for name in ("direct", "proxied")]
    for folder in folders:
        folder.mkdir()
    with tvm_process("tracker", tmp_path / "tracker") as tracker:
        behind = ("--tracker", str(tracker))
        with (
            tvm_process("proxy", tmp_path / "proxy", *behind) as proxy,
            server(folders[0], *behind, "--key", "board") as direct,
            server(folders[1], "--proxy", str(proxy), "--key", "board") as proxied,
        ):
            for served in (direct, proxied):
                served.wait_until_serving()
            with running(tune(tracker, logs, "--trials", "24"), said) as process:
                until(lambda: len(trials_in(logs)) > 1 or process.poll(), "trials")
                direct.process.kill()
                assert process.wait(2 * START_S) == 0, said.read_text()
            trials = trials_in(logs)
            assert len(candidates(trials)) == 24
            assert "load_module" in proxied.text or "connected" in proxied.text

            more = tune(tracker, logs, "--trials", "4000", "--resume", "--patience", "10")
            with running(more, said) as process:
                until(lambda: len(trials_in(logs)) > len(trials) or process.poll(), "more")
                proxied.process.kill()
                assert process.wait(START_S) == 1, said.read_text()
    assert "no device for 10 s" in said.read_text()
    assert "--resume" in said.read_text()
    after = trials_in(logs)
    assert after[: len(trials)] == trials
    manifest = json.loads(next(logs.rglob("manifest.json")).read_text())
    assert manifest["results"]["trials"] == len(after) > len(trials)


def test_no_device_at_all(tmp_path):
    with tvm_process("tracker", tmp_path / "tracker") as tracker:
        done = subprocess.run(
            [sys.executable, *tune(tracker, tmp_path / "logs", "--patience", "1")],
            capture_output=True, text=True, check=False, timeout=START_S,
        )  # fmt: skip
    assert done.returncode == 1
    assert "no device for 1 s" in done.stderr
    assert not (tmp_path / "logs").exists()
