"""The log: what was appended is there, once; what does not fit is refused with the reason."""

import dataclasses
import json

import pytest

from relay_int8.errors import RecordError
from relay_int8.tuning.batch import Measured
from relay_int8.tuning.trial_log import Log, LogManifest, Trial, read_manifest, read_trials

MANIFEST = LogManifest(
    device="cpu",
    network="net",
    network_digest="d",
    target={"kind": "llvm"},
    seed=1,
    kernels={"k": "1"},
    occurrences={"k": 2},
)
TRIALS = [
    Trial(task="k", choices=None, measured=Measured(verdict="ok", seconds=(2e-5, 1e-5))),
    Trial(task="k", choices=((2, 4), 3), measured=Measured(verdict="wrong", reason="y[0]")),
    Trial(task="k", choices=((4, 2), 1), measured=Measured(verdict="ok", seconds=(1.5e-5,))),
]
pytestmark = pytest.mark.fast


@pytest.fixture
def folder(tmp_path):
    log = Log(tmp_path / "log", MANIFEST)
    for trial in TRIALS:
        log.append(trial)
    log.close()
    return tmp_path / "log"


def test_trials_come_back(folder):
    assert read_trials(folder) == TRIALS
    assert read_manifest(folder) == MANIFEST


@pytest.mark.parametrize("left", range(1, 40, 6))
def test_a_torn_last_line_is_cut_off(folder, left):
    path = folder / "trials.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[-1][:left])
    assert read_trials(folder) == TRIALS
    log = Log(folder, MANIFEST, resume=True)
    assert log.trials == TRIALS
    log.append(TRIALS[0])
    log.close()
    assert read_trials(folder) == [*TRIALS, TRIALS[0]]


def test_a_last_line_without_end_was_never_acknowledged(folder):
    path = folder / "trials.jsonl"
    path.write_bytes(path.read_bytes()[:-1])
    assert read_trials(folder) == TRIALS[:-1]


def test_a_damaged_line_is_named(folder):
    path = folder / "trials.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:-9], lines[2], ""]))
    with pytest.raises(RecordError, match=r"trials.jsonl, line 2 is damaged: .*; delete that line"):
        read_trials(folder)


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ({"task": 7}, "task is '7'"),
        ({"choices": [1.5]}, "choices is"),
        ({"verdict": "fine"}, "measured is|verdict is 'fine'"),
        ({"seconds": ["1"]}, "seconds is"),
        ({"seconds": []}, r"it is ok and took \[\] seconds"),
        ({"seconds": [float("nan")]}, r"it is ok and took \[nan\] seconds"),
        ({"final": 1}, "final is '1'"),
    ],
)
def test_values_of_other_types_are_named(folder, damage, fault):
    path = folder / "trials.jsonl"
    fields = json.loads(TRIALS[0].to_json()) | damage
    path.write_text(json.dumps(fields) + "\n")
    with pytest.raises(RecordError, match=f"line 1 is damaged: ({fault})"):
        read_trials(folder)


def test_a_new_run_does_not_mix_with_an_old_one(folder):
    with pytest.raises(
        RecordError, match=r"trials already; TuneOptions\(resume=True\) goes on with them"
    ):
        Log(folder, MANIFEST)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seed": 2}, "recorded with seed 1, now 2"),
        ({"device": "gpu"}, "recorded with device cpu, now gpu"),
        ({"target": {"kind": "c"}}, "recorded with target"),
        ({"kernels": {"k": "2"}}, "recorded with other versions of the templates"),
    ],
)
def test_another_run_is_not_resumed(folder, change, reason):
    with pytest.raises(RecordError, match=reason):
        Log(folder, dataclasses.replace(MANIFEST, **change), resume=True)
    assert read_manifest(folder) == MANIFEST


def test_trials_of_another_tvm_are_refused(folder):
    old = dataclasses.replace(MANIFEST, tvm="0.26.1")
    (folder / "manifest.json").write_text(old.to_json())
    with pytest.raises(RecordError, match=r"recorded with tvm 0\.26\.1, running 0\.27"):
        Log(folder, MANIFEST, resume=True)


def test_a_damaged_manifest_is_named(folder, tmp_path):
    (folder / "manifest.json").write_text('{"format": 1')
    with pytest.raises(RecordError, match=r"manifest.json is damaged: .*; delete its folder"):
        read_manifest(folder)
    other = json.loads(MANIFEST.to_json()) | {"occurrences": {"k": "2"}}
    (folder / "manifest.json").write_text(json.dumps(other))
    with pytest.raises(RecordError, match="is damaged: occurrences is"):
        read_manifest(folder)
    (folder / "manifest.json").write_text('{"format": 9}')
    with pytest.raises(RecordError, match="format 9, expected 1"):
        read_manifest(folder)
    with pytest.raises(RecordError, match="it is no tuning log"):
        read_manifest(tmp_path)
