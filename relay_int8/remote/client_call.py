"""Start the process that talks to a device, and read its answer.

It is :mod:`relay_int8.remote.client`; what it is told and what it answers are files of a folder.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relay_int8.errors import DeployError
from relay_int8.remote.address import Address, Endpoint
from relay_int8.runtime.artifact import LIBRARY, WEIGHTS, extract
from relay_int8.runtime.manifest import Manifest

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ClientCall:
    """What a process that talks to the device is told."""

    endpoint: Endpoint
    artifact: Path
    manifest: Manifest
    inputs: Mapping[str, Array]
    repeats: int
    timeout_s: float

    def ask(
        self, expected: Mapping[str, Array] | None = None
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what the device is and its outputs, or what its kernels wrote otherwise."""
        with tempfile.TemporaryDirectory(prefix="relay-int8-deploy-") as name:
            folder = Path(name)
            extract(self.artifact, folder / LIBRARY, folder / WEIGHTS)
            (folder / "manifest.json").write_text(self.manifest.to_json())
            np.savez(folder / "inputs.npz", allow_pickle=False, **self.inputs)
            if expected is not None:
                np.savez(folder / "expected.npz", allow_pickle=False, **expected)
            request = {
                **dataclasses.asdict(self.endpoint.address),
                "tracker": self.endpoint.tracker,
                "key": self.endpoint.key,
                "repeats": self.repeats,
                "timeout_s": self.timeout_s,
            }
            (folder / "request.json").write_text(json.dumps(request))
            return _ask(folder, self.endpoint.address, self.timeout_s)


def _ask(
    folder: Path, address: Address, timeout_s: float
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return what the client process answers, or end it when time is over."""
    command = [sys.executable, "-m", "relay_int8.remote.client", str(folder)]
    complaints = folder / "stderr"
    with (
        complaints.open("wb") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, bufsize=0) as process,
    ):
        assert process.stdout
        said = process.stdout.readline()  # the device's time begins when the client has started
        try:
            process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            process.kill()
            said += process.communicate()[0]
            raise DeployError(
                f"{address}: gave up after {timeout_s:g} s, waiting for it to "
                f"{said.decode().splitlines()[-1]}; the device hangs, is out of reach, or busy "
                "with sessions of others; look at it, or allow more with deploy(timeout_s=...)"
            ) from error
    if not (folder / "answer.json").exists():
        last = complaints.read_text(errors="replace").strip().splitlines()[-1:] or ["no message"]
        raise DeployError(
            f"{address}: the client ended with {process.returncode} ({last[0]}); "
            "the packages of relay-int8[remote] are needed; try again if they are there"
        )
    answer: dict[str, Any] = json.loads((folder / "answer.json").read_text())
    if "error" in answer:
        raise DeployError(answer["error"])
    with np.load(folder / "outputs.npz", allow_pickle=False) as arrays:
        return answer, dict(arrays)
