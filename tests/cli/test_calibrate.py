"""relay-int8 calibrate: the table of quantize, whatever the workers and the interruptions."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tvm.target import Target

from relay_int8 import calibrate_file
from relay_int8.calibration import CalibrationTable
from relay_int8.demo import MODEL, load_images


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("images") / "calibration.npy"
    np.save(path, load_images().calibration[:120])
    return path


def command(data, output, *options):
    return [
        "calibrate",
        MODEL,
        "--batch",
        1,
        "--data",
        data,
        "--method",
        "kl",
        "-o",
        output,
        *options,
    ]


def test_the_table_is_that_of_quantize(invoke, data, tmp_path):
    code, out, err = invoke(*command(data, tmp_path / "t.json"))
    assert code == 0, err
    assert "tensors from 120 images" in out
    code, _, err = invoke(
        "quantize", MODEL, "--batch", 1, "--data", data, "--method", "kl", "--samples", 0, "-o",
        tmp_path / "a.ri8", "--save-table", tmp_path / "q.json",
    )  # fmt: skip
    assert code == 0, err
    assert (tmp_path / "t.json").read_bytes() == (tmp_path / "q.json").read_bytes()
    assert not (tmp_path / "t.json.partial").exists()


def test_two_places_to_run_are_one_too_many(invoke, data, tmp_path):
    code, _, err = invoke(
        *command(data, tmp_path / "t.json", "--workers", 2, "--scheduler", "tcp://127.0.0.1:9")
    )
    assert code == 1 and "--scheduler or --workers" in err


@pytest.mark.fast
@pytest.mark.parametrize("preset", ["auto", "int8-accurate"])
def test_tools_that_a_table_cannot_hold_are_refused(invoke, data, tmp_path, preset):
    code, _, err = invoke(*command(data, tmp_path / "t.json", "--preset", preset))
    assert code == 1
    assert f"preset {preset} looks at calibration images" in err and "--save-table" in err
    assert list(tmp_path.iterdir()) == []


def killed_when(condition, arguments):
    """Run the command line in a process of its own and kill it -9 once ``condition`` holds."""
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", "from relay_int8.cli import app; app()", *map(str, arguments)],
        cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 300
        while process.poll() is None and not condition() and time.monotonic() < deadline:
            time.sleep(0.002)
    finally:
        process.send_signal(signal.SIGKILL)
    return process.wait()


def test_killed_and_resumed(invoke, data, tmp_path, monkeypatch):
    output = tmp_path / "t.json"
    partial = tmp_path / "t.json.partial"
    arguments = command(data, output, "--checkpoint-seconds", 0)
    assert killed_when(partial.exists, arguments) == -signal.SIGKILL
    assert partial.exists() and not output.exists()
    code, _, err = invoke(*command(data, output, "--resume", "--method", "max"))
    assert code == 1 and "another model, other data or other settings" in err
    with monkeypatch.context() as patch:
        patch.setattr(calibrate_file, "native_target", lambda _: Target({"kind": "llvm"}))
        code, _, err = invoke(*command(data, output, "--resume"))
    assert code == 1 and "another model, other data or other settings" in err
    code, _, err = invoke(*command(data, output, "--resume"))
    assert code == 0, err
    assert not partial.exists()
    code, _, err = invoke(*command(data, tmp_path / "whole.json"))
    assert code == 0, err
    assert output.read_bytes() == (tmp_path / "whole.json").read_bytes()


@pytest.mark.slow
def test_workers_write_the_same_table(invoke, data, tmp_path, full):
    if not full:
        pytest.skip("compiles the network in each of three processes: --full")
    assert invoke(*command(data, tmp_path / "one.json"))[0] == 0
    assert invoke(*command(data, tmp_path / "three.json", "--workers", 3))[0] == 0
    tables = [CalibrationTable.load(tmp_path / name) for name in ("one.json", "three.json")]
    assert tables[0].to_json() == tables[1].to_json()
