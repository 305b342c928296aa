"""Calibration that is killed goes on from its checkpoint, to the same table bit for bit."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from relay_int8.calibration import CalibrationTable, calibrate
from relay_int8.calibration.checkpoint import Checkpoint
from relay_int8.errors import CalibrationError
from tests.calibration.array_runner import ArrayRunner

F = np.float32
TENSORS = {"x": "s8", "h": "u8", "y": "asymmetric"}


def network(image):
    h = np.maximum(image["x"], 0)
    return {"x": image["x"], "h": h, "y": h - F(0.25)}


def images(count=40):
    rng = np.random.default_rng(5)
    return [{"x": rng.standard_t(3, size=(1, 30)).astype(F)} for _ in range(count)]


class Stop(Exception):
    """Stands for the power cut."""


def stopping(after):
    """A network that fails when it has run so often."""
    calls = []

    def net(image):
        calls.append(1)
        if len(calls) > after:
            raise Stop
        return network(image)

    return net


def run(net=network, checkpoint=None, method="kl-tensorrt", data=None):
    runner = ArrayRunner(net, ["h"])
    return calibrate(runner, TENSORS, data or images(), method=method, checkpoint=checkpoint)


@pytest.mark.fast
@pytest.mark.parametrize("method", ["max", "moving-average", "kl-ncnn", "kl-tensorrt-onepass"])
def test_stopped_anywhere(method, tmp_path):
    wanted = run(method=method).to_json()
    for after in (1, 39, 40, 41, 63):
        path = tmp_path / f"{after}.partial"
        try:
            found = run(stopping(after), Checkpoint(path, "k", 0), method)
        except Stop:
            assert path.exists() or after == 1  # a first image that runs twice is not done
            ran = []
            net = lambda image, ran=ran: ran.append(1) or network(image)  # noqa: E731
            found = run(net, Checkpoint(path, "k", 0, resume=True), method)
            assert len(ran) <= 121 - after  # of an image that runs twice, the first is lost
        assert found.to_json() == wanted
        assert not path.exists()


@pytest.mark.fast
def test_without_resume_it_starts_anew(tmp_path):
    path = tmp_path / "p"
    with pytest.raises(Stop):
        run(stopping(20), Checkpoint(path, "k", 0))
    calls = []
    run(lambda image: calls.append(1) or network(image), Checkpoint(path, "k", 0))
    assert len(calls) == 80


@pytest.mark.fast
def test_other_model_data_or_settings(tmp_path):
    path = tmp_path / "p"
    with pytest.raises(Stop):
        run(stopping(20), Checkpoint(path, "k", 0))
    with pytest.raises(CalibrationError, match="another model, other data or other settings"):
        run(checkpoint=Checkpoint(path, "other", 0, resume=True))
    content = path.read_bytes()
    for damaged in (b"", b"{}", content[: len(content) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(CalibrationError, match="no calibration checkpoint"):
            run(checkpoint=Checkpoint(path, "k", 0, resume=True))
    path.unlink()
    assert run(checkpoint=Checkpoint(path, "k", 0, resume=True)).images == 40


@pytest.mark.fast
def test_writes_are_not_more_frequent_than_asked(tmp_path):
    with pytest.raises(Stop):
        run(stopping(70), Checkpoint(tmp_path / "p", "k", 3600))
    assert not (tmp_path / "p").exists()


SCRIPT = """
import os, signal, sys
from tests.calibration.test_checkpoint import *
calls = []
def net(image):
    calls.append(1)
    if len(calls) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return network(image)
table = run(net, Checkpoint(Path(sys.argv[1]), "k", 0, resume=True), sys.argv[3])
table.save(sys.argv[1] + ".json")
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["kl-tensorrt", "kl-tensorrt-onepass"])
def test_killed_again_and_again(tmp_path, method, full):
    if method != "kl-tensorrt" and not full:
        pytest.skip("once is enough without --full")
    path = tmp_path / "p"
    codes = []
    while not codes or codes[-1] == -signal.SIGKILL:
        command = [sys.executable, "-c", SCRIPT, str(path), "31", method]
        root = Path(__file__).parents[2]
        codes.append(
            subprocess.run(
                command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, timeout=300
            ).returncode
        )
    assert codes[-1] == 0 and len(codes) == {"kl-tensorrt": 3, "kl-tensorrt-onepass": 2}[method]
    table = CalibrationTable.load(f"{path}.json")
    assert table.to_json() == run(method=method).to_json()
