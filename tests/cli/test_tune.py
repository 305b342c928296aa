"""The command line of tuning: list, tune, resume, look, build with what was found."""

import json
import shlex

import numpy as np
import pytest
from onnx import helper, save

from relay_int8.demo import MODEL, load_images
from relay_int8.tuning.trial_log import read_trials
from tests.onnx_models import model

TUNE = ("--batch", 1, "--name", "small", "--search", "random", "--workers", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tuning")


@pytest.fixture(scope="module")
def network(folder):
    """Return the file of a network of two kernels, and one of images for it."""
    rng = np.random.default_rng(0)
    conv = helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1])
    relu = helper.make_node("Relu", ["c"], ["r"], "relu")
    pool = helper.make_node("MaxPool", ["r"], ["y"], "pool", kernel_shape=[2, 2])
    weights = {"w": rng.normal(size=(16, 8, 3, 3)).astype("float32")}
    proto = model([conv, relu, pool], {"x": ["n", 8, 8, 8]}, {"y": None}, weights)
    save(proto, folder / "small.onnx")
    np.save(folder / "images.npy", rng.normal(size=(4, 8, 8, 8)).astype("float32"))
    return folder / "small.onnx", folder / "images.npy"


def test_list_shows_kernels_and_measures_no_candidate(invoke, folder, network):
    code, out, err = invoke("tune", network[0], *TUNE, "--list", "--logs", folder / "none")
    assert code == 0, err
    assert "conv2d 1x" in out
    assert " ms with default schedules" in out
    assert not (folder / "none").exists()
    code, out, err = invoke("tune", network[0], *TUNE, "--list", "--json", "--target", "aarch64")
    assert code == 0, err
    found = json.loads(out)
    assert ["r"] in [kernel["layers"] for kernel in found["kernels"]]
    assert {kernel["us"] for kernel in found["kernels"]} == {None} and found["no_times"]
    code, _, err = invoke("tune", network[0], *TUNE, "--json")
    assert code == 2 and "--json is of --list" in err


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--search", "guess"), 2, "xgb, random, grid are known"),
        (("--page", "no/page.html"), 1, "there is no folder no"),
        (("--logs", __file__), 1, "a file found, a folder expected"),
    ],
)
def test_what_cannot_end_well_measures_nothing(invoke, folder, network, options, code, message):
    found, _, err = invoke("tune", network[0], *TUNE, "--logs", folder / "none", *options)
    assert found == code
    assert message in err
    assert not (folder / "none").exists()


@pytest.mark.fast
@pytest.mark.parametrize("at", ["before", "within", "after"])
def test_ctrl_c_says_what_is_written(invoke, network, tmp_path, monkeypatch, at):
    logs, page = tmp_path / "logs", tmp_path / "page.html"
    (logs / "device").mkdir(parents=True)

    def stopped(*_, **__):
        if at != "before":
            (logs / "device" / "trials.jsonl").touch()
        if at == "after":
            page.touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("relay_int8.tune", stopped)
    code, _, err = invoke("tune", network[0], *TUNE, "--logs", logs, "--page", page)
    assert code == 130
    kept = "" if at == "before" else f"; --resume goes on with {logs}"
    assert err.endswith(f"stopped; written: {page if at == 'after' else 'nothing'}{kept}\n")


def network_layers(manifest):
    """Return the first layer of each kernel; there is one of each at least."""
    names = [layers[0] for layers in manifest["layers"].values()]
    assert len(names) == len(manifest["kernels"])
    return names


def test_tune_resume_and_build(invoke, folder, network, tmp_path):
    tune = ("tune", network[0], *TUNE, "--logs", folder)
    code, out, err = invoke(*tune, "--trials", 3)
    assert code == 0, err
    (log,) = (path.parent for path in folder.rglob("manifest.json"))
    assert log.name == "small"
    assert str(log) in out.replace("\n", "")
    command = shlex.split(out.splitlines()[-1].removeprefix("next: relay-int8 "))
    assert command[:2] == ["quantize", str(network[0])]
    assert command[command.index("--batch") + 1] == "1"
    assert command[command.index("--tuning-logs") + 1] == str(log)
    first = read_trials(log)
    assert len({(t.task, t.choices) for t in first if t.choices is not None}) == 3
    assert {trial.measured.verdict for trial in first} == {"ok"}

    code, _, err = invoke(*tune, "--trials", 5)
    assert code == 1
    assert "holds trials already; --resume goes on with them" in err
    code, _, err = invoke(*tune, "--trials", 5, "--resume")
    assert code == 0, err
    trials = read_trials(log)
    assert trials[: len(first)] == first
    assert len({(t.task, t.choices) for t in trials if t.choices is not None}) == 5
    manifest = json.loads((log / "manifest.json").read_text())
    assert manifest["results"]["trials"] == len(trials)
    assert 0 < manifest["results"]["tuned_us"] <= manifest["results"]["untuned_us"]

    code, _, err = invoke("tuning-logs", "page", log, "-o", tmp_path / "page.html")
    assert code == 0, err
    text = (tmp_path / "page.html").read_text()
    assert "conv2d 1x" in text
    assert all(name in text for name in network_layers(manifest))

    code, out, err = invoke("tuning-logs", "show", folder)
    assert code == 0, err
    assert "small" in out
    assert "conv2d 1x" in out
    assert all(name in out for name in network_layers(manifest))
    code, out, err = invoke("tuning-logs", "show", folder, "--json")
    assert code == 0, err
    (found,) = json.loads(out)
    assert found["trials"] == len(trials)
    assert sum(kernel["trials"] for kernel in found["kernels"]) == len(trials)
    assert all(kernel["template"] and kernel["layers"] for kernel in found["kernels"])

    quantize = (
        "quantize", network[0], "--batch", 1, "--data", network[1], "--samples", 0,
        "-o", tmp_path / "a.ri8",
    )  # fmt: skip
    code, out, err = invoke(*quantize, "--tuning-logs", folder, "--require-tuned")
    assert code == 0, err
    assert "run as tuned, 0 by default" in out

    (log / "trials.jsonl").write_text("".join(f"{t.to_json()}\n" for t in first[:2]))
    code, _, err = invoke(*quantize, "--tuning-logs", folder, "--require-tuned")
    assert code == 1
    assert "tuned kernels were required, but " in err
    assert "run relay-int8 tune for this model and target" in err


@pytest.mark.fast
@pytest.mark.parametrize("wish", [("--require-tuned",), ("--tuning-logs", "logs")])
def test_tuned_without_records_is_a_contradiction(invoke, tmp_path, wish):
    np.save(tmp_path / "images.npy", load_images().calibration[:4])
    code, _, err = invoke(
        "quantize", MODEL, "--batch", 1, "--data", tmp_path / "images.npy", "--no-records", *wish,
        "-o", tmp_path / "a.ri8",
    )  # fmt: skip
    assert code == 1
    assert "tuned kernels are asked for, and records are switched off" in err


@pytest.mark.fast
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tracker", "a:1"), "lends devices by their --key"),
        (("--tracker", "a:1", "--rpc", "a:2", "--key", "k"), "either --tracker or --rpc"),
    ],
)
def test_devices_that_cannot_be_meant(invoke, folder, options, message):
    code, _, err = invoke("tune", MODEL, *TUNE, "--logs", folder / "none", *options)
    assert code == 2
    assert message in err


@pytest.mark.fast
def test_a_folder_without_logs_is_an_error(invoke, tmp_path):
    code, _, err = invoke("tuning-logs", "show", tmp_path)
    assert code == 1
    assert "holds no tuning log; make one with relay-int8 tune" in err


def test_there_is_nothing_to_prune_and_no_folder_to_merge_into(invoke, tmp_path):
    code, _, err = invoke("tuning-logs", "prune", tmp_path / "none")
    assert code == 1 and "holds no tuning log" in err
    (tmp_path / "file").write_text("kept")
    code, _, err = invoke("tuning-logs", "merge", tmp_path, "-o", tmp_path / "file")
    assert code == 1 and "a file found, a folder expected" in err
    assert (tmp_path / "file").read_text() == "kept"
