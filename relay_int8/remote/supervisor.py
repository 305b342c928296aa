"""Keep an RPC server running for others to deploy on, and leave nothing behind.

TVM's protocol gives whoever knows the key the rights of the user who serves: they send machine
code and run it. The key travels unencrypted. That is why serving is for this computer alone unless
the caller says otherwise, and why a network needs a key at all.

The server is a process group of its own. It is ended as a whole, with every session, when
:func:`serve` ends; and ends itself when this process is killed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from relay_int8.argument_types import checked
from relay_int8.errors import ConfigError, DeployError
from relay_int8.remote.address import Address, is_loopback

_GRACE_S = 2.0


@checked
@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Where to listen and who may connect.

    Parameters
    ----------
    host, port
        Where to listen; port 0 is any that is free.
    key
        Word that clients must know; a kind of device for trackers and proxies.
    tracker
        Tracker to register with.
    proxy
        Proxy to connect to instead of listening.
    allow_network
        Let other computers connect.
    work_dir
        Folder, made and removed again by the server; in the system's temporary one if None.
    threads
        Threads of the networks that run here; the runtime's choice if None.

    Raises
    ------
    ConfigError
        If they do not go together.
    """

    host: str = "127.0.0.1"
    port: int = 9090
    key: str = ""
    tracker: Address | None = None
    proxy: Address | None = None
    allow_network: bool = False
    work_dir: Path | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.key and not re.fullmatch(r"[\w.+-]+", self.key, re.ASCII):
            raise ConfigError("the key may hold letters, digits and _ . + - only")
        if self.tracker and self.proxy:
            raise ConfigError("a tracker and a proxy were given; choose one of them")
        if (self.tracker or self.proxy) and not self.key:
            raise ConfigError(
                "trackers and proxies know devices by their key; give ServeOptions(key=...)"
            )
        reached = self.proxy.host if self.proxy else self.host
        if not is_loopback(reached) and not (self.allow_network and self.key):
            raise ConfigError(
                f"{reached or 'every address'} is reached by other computers, and whoever connects "
                "can run any code here; where you trust them, say "
                "ServeOptions(allow_network=True, key=...)"
            )


@checked
def serve(options: ServeOptions, ready: Callable[[str], None]) -> NoReturn:
    """Serve until a signal ends this process; a server that crashes is started again.

    Parameters
    ----------
    options
        Where to listen and who may connect.
    ready
        Called with a line of text when clients can connect, and whenever something happened.

    Raises
    ------
    SystemExit
        With 0, on SIGINT, SIGTERM or SIGHUP, when every process and file of the server is gone.
    DeployError
        If the server cannot start.
    """
    if options.tracker:
        options.tracker.check_listening("tracker", "start one: python -m tvm.exec.rpc_tracker")
    if options.proxy:
        options.proxy.check_listening("proxy", "start one: python -m tvm.exec.rpc_proxy")
    port = options.port
    if port and not options.proxy:
        Address(options.host, port).check_free()
    with _signals_exit(), _work_folder(options.work_dir) as work:
        while True:
            with _server(options, port, work) as process:
                port = _wait_until_ready(process, options, port)
                ready(_greeting(options, port, work))
                code = process.wait()
            ready(f"the server ended with {code}; starting it again")


@contextmanager
def _signals_exit() -> Iterator[None]:
    """Turn signals that end a program into SystemExit, so that what is open gets closed."""

    def _leave(*_: object) -> NoReturn:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise SystemExit(0)

    before: dict[signal.Signals, Any] = {
        number: signal.getsignal(number)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    for number in before:
        signal.signal(number, _leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _work_folder(wanted: Path | None) -> Iterator[Path]:
    """Make a folder that only this user can enter; it is gone afterwards."""
    if wanted is None:
        folder = Path(tempfile.mkdtemp(prefix="relay-int8-serve-"))
    else:
        folder = wanted.absolute()
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise ConfigError(
                f"{wanted}: cannot be made ({error.strerror}); name a folder that does not exist: "
                "it is removed at the end"
            ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _server(options: ServeOptions, port: int, work: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the server's process group; none of it is left afterwards."""
    environment = os.environ | {"TMPDIR": str(work)}
    if options.threads is not None:
        environment["TVM_NUM_THREADS"] = str(options.threads)
    process = subprocess.Popen(
        [sys.executable, "-m", "relay_int8.remote.server_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,
        text=True,
    )
    try:
        _send(process, options, port, work)
        yield process
    finally:
        _end_group(process)
        for left in work.iterdir():
            shutil.rmtree(left, ignore_errors=True)


def _send(process: subprocess.Popen[str], options: ServeOptions, port: int, work: Path) -> None:
    """Give the server its orders; not as arguments, where everybody could read the key."""
    places = {"tracker": options.tracker, "proxy": options.proxy}
    orders: dict[str, Any] = {
        "host": options.host,
        "port": port,
        "key": options.key,
        "work": str(work),
        **{name: (at.host, at.port) if at else None for name, at in places.items()},
    }
    assert process.stdin
    process.stdin.write(json.dumps(orders) + "\n")
    process.stdin.flush()


def _end_group(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(_GRACE_S)
    with suppress(ProcessLookupError):
        # The leader has ended; sessions may not have.
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe
        pipe.close()


def _wait_until_ready(process: subprocess.Popen[str], options: ServeOptions, port: int) -> int:
    """Return the port on which the server listens."""
    assert process.stdout
    line = process.stdout.readline()
    if not line:
        where = options.proxy or Address(options.host, port)
        raise DeployError(
            f"{where}: the server did not start (exit code {process.wait()}; the reason is above); "
            "another ServeOptions(port=...), or the packages of relay-int8[remote], may help"
        )
    return int(json.loads(line)["port"])


def _greeting(options: ServeOptions, port: int, work: Path) -> str:
    if options.proxy:
        where = f"through the proxy {options.proxy}"
    else:
        where = f"on {Address(options.host, port)}"
    tracker = f", tracker {options.tracker}" if options.tracker else ""
    key = f", key {options.key}" if options.tracker or options.proxy else ""
    return f"serving {where}{tracker}{key}; files in {work}"
