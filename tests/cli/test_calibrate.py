"""relay-int8 calibrate: the table of quantize, whatever the workers and the interruptions."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from tvm.target import Target
from typer.testing import CliRunner

from relay_int8.api import calibrate
from relay_int8.cli import app
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


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """Return the table of one process that was left alone."""
    path = tmp_path_factory.mktemp("whole") / "t.json"
    result = CliRunner().invoke(app, [str(argument) for argument in command(data, path)])
    assert result.exit_code == 0, result.stderr
    assert "tensors from 120 images" in result.stdout
    assert [found.name for found in path.parent.iterdir()] == ["t.json"]
    return path.read_bytes()


def test_the_table_is_that_of_quantize(invoke, data, tmp_path, whole):
    code, _, err = invoke(
        "quantize", MODEL, "--batch", 1, "--data", data, "--method", "kl", "--samples", 0, "-o",
        tmp_path / "a.ri8", "--save-table", tmp_path / "q.json",
    )  # fmt: skip
    assert code == 0, err
    assert (tmp_path / "q.json").read_bytes() == whole


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


@pytest.mark.fast
@pytest.mark.parametrize("is_begun", [True, False])
def test_ctrl_c_says_what_is_kept(invoke, tmp_path, monkeypatch, is_begun):
    table = tmp_path / "table.json"

    def stopped(*_, **__):
        if is_begun:
            table.with_name("table.json.partial").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("relay_int8.api.calibrate.calibrate_model", stopped)
    code, _, err = invoke("calibrate", MODEL, "--data", tmp_path, "-o", table)
    assert code == 130
    kept = f"; --resume goes on with {table}.partial" if is_begun else ""
    assert err == f"stopped; written: nothing{kept}\n"


RUN = "from relay_int8.cli import app; app()"
SMALL_SHARDS = """
from functools import partial
from relay_int8.calibration import cluster
cluster.DaskMapper = partial(cluster.DaskMapper, shard_bytes=8 * 64 * 4)  # eight images
"""


def killed_when(condition, arguments, script=RUN):
    """Run the command line in a process of its own and kill it -9 once ``condition`` holds.

    Returns the exit code, and the processes that it had started.
    """
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    children = []
    try:
        deadline = time.monotonic() + 600
        while process.poll() is None and not condition() and time.monotonic() < deadline:
            time.sleep(0.002)
        if process.poll() is None:
            children = psutil.Process(process.pid).children(recursive=True)
    finally:
        process.send_signal(signal.SIGKILL)
    return process.wait(), children


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"), [(("--workers", 2), ()), (("--workers", 2), ("--workers", 3)), ((), ())]
)
def test_killed_and_resumed(invoke, data, tmp_path, monkeypatch, whole, full, before, after):
    if not full and (before, after) != (("--workers", 2), ()):
        pytest.skip("one change of the number of workers is enough without --full")
    output = tmp_path / "t.json"
    partial = tmp_path / "t.json.partial"
    arguments = command(data, output, "--checkpoint-seconds", 0)
    code, children = killed_when(partial.exists, [*arguments, *before], f"{SMALL_SHARDS}{RUN}")
    assert code == -signal.SIGKILL
    assert partial.exists() and not output.exists()
    # Nobody asks the workers to end: they notice that the process that started them is gone.
    gone, alive = psutil.wait_procs(children, timeout=120)
    assert not alive and len(gone) >= (2 if before else 0)
    code, _, err = invoke(*command(data, output, "--resume", "--method", "max"))
    assert code == 1 and "another model, other data or other settings" in err
    with monkeypatch.context() as patch:
        patch.setattr(calibrate, "native_target", lambda: Target({"kind": "llvm"}))
        code, _, err = invoke(*command(data, output, "--resume"))
    assert code == 1 and "another model, other data or other settings" in err
    code, _, err = invoke(*command(data, output, "--resume", *after))
    assert code == 0, err
    assert not partial.exists()
    assert output.read_bytes() == whole


@pytest.mark.slow
def test_workers_write_the_same_table(invoke, data, tmp_path, whole, full):
    if not full:
        pytest.skip("compiles the network in each of three processes: --full")
    assert invoke(*command(data, tmp_path / "three.json", "--workers", 3))[0] == 0
    assert (tmp_path / "three.json").read_bytes() == whole
