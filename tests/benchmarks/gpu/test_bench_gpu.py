"""The whole benchmark on this computer's processor in place of a GPU: build, run, record."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import benchmarks
from benchmarks.gpu import __main__ as bench_gpu
from benchmarks.gpu import compare_systems
from benchmarks.gpu.bundle import open_bundle
from benchmarks.gpu.systems import SYSTEMS
from relay_int8.tuning.trial_log import read_manifest, read_trials

ROOT = Path(benchmarks.__file__).parents[1]
BUILD = "--host --networks resnet18 --batch 1 --image-size 32 --cut --python"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu") / "build"
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert bench_gpu.main(["--build", str(folder), *BUILD.split(), python]) == 0
    return folder


def run(built, folder, *arguments):
    """Return the exit code and the JSON of a short run."""
    rules = ["--rounds", "2", "--turn", "0.01", "--cache", str(folder / "cache")]
    files = [f"--{kind}={folder / kind}" for kind in ("json", "markdown")]
    code = bench_gpu.main(["--run", str(built), *rules, *files, *arguments])
    return code, json.loads((folder / "json").read_text())


def test_build_run_record(built, tmp_path, capsys):
    code, content = run(built, tmp_path)
    assert code == 0, capsys.readouterr().err
    (cell,) = content["cells"]
    assert cell["wrong"] == {} and cell["checked"] == 15
    own = ["relay-int8", "relay-int8-captured", "relay-int8-calls"]
    assert [key for key in cell["turns"] if key in own] == own
    assert [len(turns) for turns in cell["turns"].values()] == [2] * len(cell["turns"])
    assert min(cell["cosines"].values()) > 0.999
    kernels = [layer["kernel"] for layer in cell["layers"]]
    assert [kernel["tensor"] for kernel in kernels][:2] == ["input:int", "relu"]
    assert sum(kernel["macs"] for kernel in kernels) == cell["macs"]
    assert "| resnet18 | 1 |" in (tmp_path / "markdown").read_text()

    logs = tmp_path / "logs"
    assert bench_gpu.main(["--record", str(tmp_path / "json"), "--tuning-logs", str(logs)]) == 0
    log = Path(capsys.readouterr().out.splitlines()[-1])
    assert log.parents[1] == logs and read_manifest(log).network == "resnet18, batch 1"
    trials = read_trials(log)
    assert len(trials) == len({kernel["key"] for kernel in kernels})
    assert {(trial.choices, trial.measured.verdict) for trial in trials} == {(None, "ok")}


def test_wrong_integers_are_named(built, tmp_path):
    """As if the oracle had said otherwise of one tensor, and the build of the logits."""
    bundle = open_bundle(built)
    (entry,) = bundle.entries
    kernels = [
        dataclasses.replace(kernel, expected="0" * 64) if kernel.tensor == "relu" else kernel
        for kernel in entry.kernels
    ]
    other = tmp_path / "build"
    other.mkdir()
    for name in ("packs", "references"):
        (other / name).symlink_to(built / name)
    entries = (dataclasses.replace(entry, kernels=tuple(kernels)),)
    dataclasses.replace(bundle, folder=other, entries=entries).save()
    code, content = run(other, tmp_path, "--systems", "relay-int8", "--no-layers")
    assert code == 1
    (wrong,) = content["cells"][0]["wrong"].values()
    assert wrong == "relu: other integers than the NumPy oracle's"


def test_what_fails_is_said_and_the_rest_goes_on(built, tmp_path, monkeypatch):
    """Kernels cannot be compared, and a system cannot be loaded."""
    broken = dataclasses.replace(SYSTEMS["torch-fp32"], loader="no.such:module", package="")
    monkeypatch.setitem(SYSTEMS, "torch-fp32", broken)
    monkeypatch.setattr(compare_systems, "_compare", divmod)  # which wants other arguments
    code, content = run(built, tmp_path, "--systems", "relay-int8", "torch-fp32")
    assert code == 1
    (cell,) = content["cells"]
    assert cell["failures"]["kernel by kernel"].startswith("TypeError: divmod expected 2 arguments")
    assert "ended with exit code 1" in cell["failures"]["torch-fp32"]
    assert list(cell["turns"]) == ["relay-int8"] and cell["layers"] == []


def test_a_run_needs_neither_tvm_nor_onnx(built, tmp_path):
    """What --python ships is all that is needed beside NumPy."""
    code = (
        "from benchmarks.gpu.__main__ import main\n"
        f"assert main(['--run', {str(built)!r}, '--systems', 'relay-int8', '--rounds', '1', "
        "'--turn', '0.01', '--no-layers']) == 0\n"
    )
    shipped, site = built / "runtime", tmp_path / "site"
    assert not list(shipped.rglob("libtvm_compiler.so"))
    site.mkdir()
    installed = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (installed / name).exists():
            (site / name).symlink_to(installed / name)
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],  # without the packages of this environment
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (shipped, ROOT, site)))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.fast
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--run", "nowhere"], "bundle.json cannot be read"),
        (["--build", "."], "is not empty"),
        (["--build", "x", "--arch", "sm_37"], "architecture 'sm_37' is not known"),
        (["--record", "nowhere.json"], "nowhere.json"),
        (["--build", "x", "--host", "--networks", "resnet18", "--batch", "0"], "batch 0"),
    ],
)
def test_wrong_usage(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert bench_gpu.main(arguments) == 1
    assert message in capsys.readouterr().err
