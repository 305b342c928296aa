"""A worker process that is lost: nothing of it stays, whoever killed it."""

import os
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

from relay_int8.errors import DeployError, Int8Error
from relay_int8.remote.address import Address, Endpoint
from relay_int8.tuning.remote_measurer import RemoteMeasurer
from relay_int8.tuning.worker import Worker, WorkerLostError, _run
from tests.remote.processes import until
from tests.tuning.served import START_S, left_by, serve

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("request_", "message"),
    [("hang", "took longer than 0.1 s"), ("crash", "crashed .exit code 3.")],
)
def test_a_lost_worker_leaves_nothing_behind(request_, message):
    worker = Worker(serve)
    first = left_by(worker, "stay")
    assert first.exists()
    second = left_by(worker, request_)
    with pytest.raises(WorkerLostError, match=message) as caught:
        worker.receive(0.1 if request_ == "hang" else START_S)
    assert isinstance(caught.value, Int8Error)
    assert not first.parent.parent.exists() and not second.exists()
    third = left_by(worker, "stay")  # a new process, with a folder of its own
    assert third.exists()
    worker.stop()
    assert not third.parent.parent.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_worker_whose_parent_is_killed_leaves_nothing_behind(number):
    command = [sys.executable, "-m", "tests.tuning.served"]
    # What a script runs in its background ignores SIGINT, and so would this process.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed,
    ) as process:
        path = Path(process.stdout.readline().strip())
        there = path.exists()
        if number == signal.SIGKILL:
            process.kill()
        else:
            os.killpg(process.pid, number)
        process.wait(START_S)
        until(lambda: not path.parent.parent.exists(), "the folder's end", START_S)
    assert there


def test_a_second_signal_leaves_no_files(monkeypatch, tmp_path):
    """One that comes while the worker ends for the first, as a parent's end follows Ctrl-C."""

    def _second(_number, handler):
        if handler == signal.SIG_IGN:
            sys.exit(128 + signal.SIGTERM)

    monkeypatch.setenv("TMPDIR", "")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(signal, "signal", _second)
    (tmp_path / "library.so").write_text("code")
    _run(lambda _connection: None, None, str(tmp_path))
    assert not tmp_path.exists()


def test_a_worker_that_does_not_start_in_time_is_an_error():
    rack = Endpoint(address=Address("127.0.0.1", 9))
    with (
        RemoteMeasurer({"kind": "llvm"}, rack, start_s=0) as devices,
        pytest.raises(DeployError, match=r"0.1:9: the process .* did not start: it took long"),
    ):
        devices.describe()
