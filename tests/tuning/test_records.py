"""Builds with records: kernels run as tuned, the same integers come out, what does not fit is said."""

import dataclasses
import json
import re
import shutil

import numpy as np
import pytest
from tvm.s_tir.meta_schedule.database import JSONDatabase
from tvm.target import Target

from relay_int8.api.tuning_logs import read_tuning_logs
from relay_int8.compiler.build import compile_module, kernel_calls
from relay_int8.errors import RecordError
from relay_int8.tuning.batch import Measured
from relay_int8.tuning.log_folders import shipped_logs
from relay_int8.tuning.records import Records
from relay_int8.tuning.tasks import tasks_of
from relay_int8.tuning.trial_log import (
    MANIFEST,
    Log,
    LogManifest,
    Trial,
    read_manifest,
    read_trials,
)
from relay_int8.tuning.upkeep import merge, prune
from schedules import space
from schedules.spec import Rescale
from schedules.targets import TARGETS, target_config
from schedules.task import Task
from tests.quantized_networks import QuantizedNetwork, assert_found_equals_oracle
from tests.run_built import run_built
from tests.small_networks import NETWORKS, any_params

TARGET = Target(TARGETS["x86-avx2"])
LOGS_OF = {
    "winograd_vnni": "resnet18-1-threads-batch-16",
    "depthwise_vnni": "mobilenet-v2-1-threads-batch-1",
    "attention_vnni": "vit-s-16-1-threads-batch-1",
}
"""A shipped log that has kernels of a template."""


@pytest.fixture(scope="module")
def network():
    return QuantizedNetwork.make(NETWORKS["residual"](), any_params)


@pytest.fixture
def log(network, tmp_path):
    """A log in which the last point of every kernel's space is twice as fast as the default."""
    tasks = tasks_of(kernel_calls(network.mod, TARGET))
    manifest = LogManifest(
        device="cpu",
        network="residual",
        network_digest="",
        target=target_config(TARGET),
        seed=1,
        kernels={task.key: space.version(task.kernel(TARGET)) for task in tasks},
        occurrences={task.key: task.occurrences for task in tasks},
    )
    log = Log(tmp_path / "logs" / "net", manifest)
    for task in tasks:
        last = list(space.points(task.kernel(TARGET)))[-1]
        for choices, seconds in ((None, 2e-5), (last, 1e-5)):
            measured = Measured(verdict="ok", seconds=(seconds,))
            log.append(Trial(task=task.key, choices=choices, measured=measured))
    log.close()
    return log.folder


def change(folder, **fields):
    manifest = dataclasses.replace(read_manifest(folder), **fields)
    (folder / "manifest.json").write_text(manifest.to_json())


def test_tuned_kernels_give_the_same_integers(network, log):
    records = Records(log.parent, TARGET)
    plain, tuned = compile_module(network.mod, TARGET), compile_module(network.mod, TARGET, records)
    assert all(call.tuned for call in tuned.calls if call.template)
    assert not any(call.tuned for call in plain.calls)
    assert records.refused == {}
    expected, actual = (run_built(built, network.inputs) for built in (plain, tuned))
    assert expected.keys() == actual.keys()
    for name in expected:
        np.testing.assert_array_equal(actual[name], expected[name], err_msg=name)


def test_records_of_float_kernels_are_not_those_of_fixed_point(network, log):
    """Of one network's log, another arithmetic takes what multiplies nothing by a scale."""
    fixed = QuantizedNetwork.make(NETWORKS["residual"](), any_params, requantize="tflite")
    built = compile_module(fixed.mod, TARGET, Records(log.parent, TARGET))
    scaled = {call.tuned for call in built.calls if getattr(call.spec, "rounding", None)}
    others = {call.tuned for call in built.calls if not getattr(call.spec, "rounding", None)}
    assert (scaled, others) == ({False}, {True})
    assert_found_equals_oracle(fixed, run_built(built, fixed.inputs))


def test_the_winning_schedule_is_built(network, log):
    task = next(t for t in tasks_of(kernel_calls(network.mod, TARGET)) if "conv2d" in t.template)
    kernel = task.kernel(TARGET)
    last = list(space.points(kernel))[-1]
    found = Records(log, TARGET).schedule(task, kernel)
    assert found.mod.script() == space.point(kernel, last).schedule.mod.script()
    assert found.mod.script() != kernel.default().mod.script()


def test_kernels_without_record_run_by_default(network, log):
    path = log / "trials.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    built = compile_module(network.mod, TARGET, Records(log, TARGET))
    assert {call.tuned for call in built.calls} == {True, False}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"tvm": "0.26.1"}, r"recorded with tvm 0\.26\.1, running 0\.27.*; re-run relay-int8 tune"),
        ({"target": {"kind": "c"}}, "recorded for kind c, not llvm, mcpu None, not haswell"),
    ],
)
def test_a_log_of_something_else_is_refused_with_the_reason(log, fields, reason):
    change(log, **fields)
    records = Records(log, TARGET)
    assert len(records) == 0
    (text,) = records.refused.values()
    assert re.search(reason, text)


def test_a_record_of_another_template_version_is_refused(network, log):
    manifest = read_manifest(log)
    conv = next(key for key in manifest.kernels if "conv2d" in json.loads(key)[0])
    change(log, kernels={**manifest.kernels, conv: "0" * 32})
    records = Records(log, TARGET)
    built = compile_module(network.mod, TARGET, records)
    ((place, reason),) = records.refused.items()
    assert place.startswith(str(log))
    assert reason.startswith("recorded with another version of the template")
    assert sum(not call.tuned for call in built.calls if call.template) >= 1


def test_choices_that_are_no_point_name_the_log(network, log):
    path = log / "trials.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [fields | {"choices": fields["choices"] and [0]} for fields in lines]
    path.write_text("".join(f"{json.dumps(fields)}\n" for fields in lines))
    with pytest.raises(RecordError, match=f"{log} is damaged, or .*; re-run relay-int8 tune"):
        compile_module(network.mod, TARGET, Records(log, TARGET))
    with pytest.raises(RecordError, match=f"{log} is damaged, or"):
        prune(log)


@pytest.mark.parametrize(
    "key", ['["gone", "{}", []]', "k", '["a", "{\\"kind\\": \\"b\\"}", ["row"]]']
)
def test_kernels_of_other_versions_are_named(log, key):
    """Builds pass them over: no kernel of today has such a key."""
    measured = Measured(verdict="ok", seconds=(1e-5,))
    trial = Trial(task=key, choices=None, measured=measured)
    (log / "trials.jsonl").write_text(trial.to_json() + "\n")
    with pytest.raises(RecordError, match="manifest does not name the kernel"):
        read_tuning_logs(log)
    change(log, kernels={key: "0"})
    with pytest.raises(RecordError, match=r"another version of relay-int8: .* is no kernel"):
        read_tuning_logs(log)
    spec = Rescale(dims=(1, 64), x="uint8", y="uint8")
    assert Records(log, TARGET).seconds("rescale_cpu", spec) is None


def test_a_folder_without_logs_is_an_error(tmp_path):
    with pytest.raises(RecordError, match="holds no tuning log; make one with relay-int8 tune"):
        Records(tmp_path, TARGET)


def shipped(log, **fields):
    """Return the folder of a log as it would be shipped, with another manifest."""
    change(log, **fields)
    return log.parent


def test_shipped_records_are_used_where_the_user_has_none(network, log, tmp_path):
    built = compile_module(network.mod, TARGET, Records(None, TARGET, shipped(log)))
    assert all(call.tuned for call in built.calls if call.template)


def test_features_that_a_virtual_machine_hides_do_not_matter(log):
    config = target_config(TARGET)
    records = Records(None, TARGET, shipped(log, target=config | {"mattr": ["-gfni"]}))
    assert len(records) > 0


@pytest.mark.parametrize("other", [{"num-cores": 64}, {"mcpu": "skylake"}])
def test_shipped_records_of_another_cpu_are_passed_over(network, log, other):
    folder = shipped(log, target=target_config(TARGET) | other)
    records = Records(None, TARGET, folder)
    assert len(records) == 0
    assert records.refused == {}
    own = Records(folder, TARGET)
    ((name, value),) = other.items()
    assert f"recorded for {name} {value}, not " in own.refused[str(log)]


def test_shipped_records_of_another_tvm_are_refused_with_the_reason(log):
    records = Records(None, TARGET, shipped(log, tvm="0.26.1"))
    assert "recorded with tvm 0.26.1" in records.refused[str(log)]


def test_own_records_go_before_shipped_ones(network, log, tmp_path):
    own = tmp_path / "own"
    shutil.copytree(log, own)
    lines = [Trial.from_json(line) for line in (own / "trials.jsonl").read_text().splitlines()]
    slow = Measured(verdict="ok", seconds=(1.0,))
    defaults = (dataclasses.replace(t, measured=slow) for t in lines if t.choices is None)
    (own / "trials.jsonl").write_text("".join(f"{t.to_json()}\n" for t in defaults))
    task = next(t for t in tasks_of(kernel_calls(network.mod, TARGET)) if "conv2d" in t.template)
    kernel = task.kernel(TARGET)
    found = Records(own, TARGET, log.parent).schedule(task, kernel)
    assert found.mod.script() == kernel.default().mod.script()


def test_the_project_finds_its_own_logs():
    folder = shipped_logs()
    assert folder is None or (folder / "README.md").exists()


@pytest.mark.parametrize("template", ["winograd_vnni", "depthwise_vnni", "attention_vnni"])
def test_shipped_records_are_of_todays_loops(template):
    """A name that changes in a schedule makes every record of it stale."""
    logs = shipped_logs()
    if logs is None:
        pytest.skip("installed without the repository's tuning logs")
    manifest = read_manifest(logs / "amd-epyc-znver5" / LOGS_OF[template])
    key = next(key for key in manifest.kernels if json.loads(key)[0] == template)
    kernel = Task.from_key(key).kernel(Target(manifest.target))
    assert space.version(kernel) == manifest.kernels[key]


def database(folder):
    return JSONDatabase(work_dir=str(folder)).get_all_tuning_records()


def test_pruned_logs_build_the_same(network, log):
    before = [trial for trial in read_trials(log) if trial.choices is not None]
    slow = dataclasses.replace(before[0], measured=Measured(verdict="wrong", reason="y"))
    other = dataclasses.replace(slow, choices=((1,), 99))
    with (log / "trials.jsonl").open("a") as file:
        file.write(other.to_json() + "\n")
    assert prune(log.parent) == 1
    assert len(database(log)) == len(read_trials(log))
    assert [trial for trial in read_trials(log) if trial.choices is not None] == before
    assert len(database(log)) == len(read_trials(log))
    spent = read_manifest(log).results
    assert (spent["trials"], spent["wrong"]) == (len(read_trials(log)) + 1, 1)
    assert prune(log.parent, database=False) == 0
    assert read_manifest(log).results == spent
    assert {path.name for path in log.iterdir()} == {"manifest.json", "trials.jsonl"}
    built = compile_module(network.mod, TARGET, Records(log, TARGET))
    assert all(call.tuned for call in built.calls if call.template)


def test_kernels_that_templates_make_otherwise_by_now_are_pruned(network, log):
    manifest, trials = read_manifest(log), read_trials(log)
    stale = trials[0].task
    kernels = {**manifest.kernels, stale: "of other loops"}
    (log / MANIFEST).write_text(dataclasses.replace(manifest, kernels=kernels).to_json())
    assert prune(log.parent) == sum(trial.task == stale for trial in trials)
    kept = read_manifest(log)
    assert stale not in kept.kernels and stale not in kept.occurrences
    assert kept.kernels == {key: manifest.kernels[key] for key in kernels if key != stale}
    assert read_trials(log) == [trial for trial in trials if trial.task != stale]
    own = Records(log, TARGET)
    compile_module(network.mod, TARGET, own)
    assert own.refused == {}


def test_logs_of_another_tvm_keep_all_their_kernels(log):
    manifest, trials = read_manifest(log), read_trials(log)
    kernels = dict.fromkeys(manifest.kernels, "of other loops")
    other = dataclasses.replace(manifest, kernels=kernels, tvm="0.26.1")
    (log / MANIFEST).write_text(other.to_json())
    assert prune(log.parent) == 0
    assert read_manifest(log).kernels == kernels
    assert read_trials(log) == trials


def test_merging_a_log_with_its_copy_changes_no_trial(log, tmp_path):
    manifest = merge([log, log], tmp_path / "merged")
    assert read_trials(tmp_path / "merged") == read_trials(log)
    assert len(database(tmp_path / "merged")) == len(read_trials(log))
    assert manifest.results["untuned_us"] == pytest.approx(2 * manifest.results["tuned_us"])


def test_logs_of_other_devices_are_not_merged(log, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in log.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    change(copy, device="gpu")
    with pytest.raises(RecordError, match="its device is gpu, not cpu"):
        merge([log, copy], tmp_path / "merged")
    assert not (tmp_path / "merged").exists()
