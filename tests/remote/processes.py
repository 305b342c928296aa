"""Trackers, proxies and servers as real processes on this computer's loopback."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from relay_int8.remote.address import Address

START_S = 240  # a busy computer takes long to import TVM five times
# The command line, and one that hears what is said before it: ``before`` is Python.
CLI = "from relay_int8.cli import app; app()"


def free_address() -> Address:
    """Return an address of loopback on which nothing listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return Address("127.0.0.1", found.getsockname()[1])


def until(condition, what: str, seconds: float = START_S):
    """Return what ``condition`` returns as soon as it is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {seconds} s")


def listens(address: Address) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address.host, address.port)) == 0


@contextmanager
def running(arguments: list[str], log: Path):
    """Run Python with ``arguments``; it and its children are gone afterwards."""
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        # TVM's trackers, proxies and servers outlive the process that started them.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def tvm_process(name: str, log: Path, *options: str):
    """Run TVM's tracker, proxy or server and return its address."""
    address = free_address()
    ports = ["--host", address.host, "--port", str(address.port)]
    arguments = ["-m", f"tvm.exec.rpc_{name}", *ports, "--port-end", str(address.port + 1)]
    if name == "proxy":
        arguments += ["--web-port", "0"]  # none; by default 8888 of every interface
    arguments += options
    with running(arguments, log) as process:
        until(lambda: listens(address) or process.poll() is not None, name)
        assert process.poll() is None, log.read_text()
        yield address


class Server:
    """A running ``relay-int8 serve``."""

    def __init__(self, process: subprocess.Popen, log: Path, folder: Path) -> None:
        self.process, self.log, self.folder = process, log, folder

    def wait_until_serving(self, times: int = 1) -> None:
        until(
            lambda: len(re.findall("^serving ", self.text, re.M)) >= times or self.process.poll(),
            "server",
        )
        assert self.process.poll() is None, self.text

    @property
    def text(self) -> str:
        return self.log.read_text()

    @property
    def address(self) -> Address:
        return Address.parse(self.text.split("serving on ")[1].split(",")[0].split(";")[0])

    @property
    def below(self) -> list[psutil.Process]:
        """The processes it has started, the leader of its group first."""
        return psutil.Process(self.process.pid).children(recursive=True)

    @property
    def files(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_file()]


@contextmanager
def server(folder: Path, *arguments: str, before: str = ""):
    """Run ``relay-int8 serve`` on any port; ``before`` is Python that it runs first."""
    work, log = folder / "work", folder / "log"
    options = ["serve", "--port", "0", "--work-dir", str(work), *arguments]
    with running(["-c", f"{before}\n{CLI}", *options], log) as process:
        yield Server(process, log, work)


def gone(processes: list[psutil.Process]) -> bool:
    """Return whether none of ``processes`` runs any more."""
    return not any(
        process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes
    )
