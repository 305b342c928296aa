"""Run an artifact on another device, over TVM's RPC, and check there that it is the same network.

The device must run ``relay-int8 serve``. What comes back is compared with what this computer
computes, bit for bit. Where outputs differ, the device runs the network again, kernel by kernel,
each with the inputs that it has here: what is wrong is the first kernel whose integers differ, or
whose floats do by more than rounding; if there is none, the outputs differ by float rounding alone.
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

from relay_int8.errors import ConfigError, DeployError
from relay_int8.remote.address import Address, Endpoint
from relay_int8.remote.device import Device
from relay_int8.remote.kernel_check import KernelCheck, check_kernels, expected_results
from relay_int8.remote.kernel_run import by_number, numbered, run_kernels
from relay_int8.runtime.artifact import (
    LIBRARY,
    WEIGHTS,
    extract,
    extracted,
    load,
    read_manifest,
)
from relay_int8.runtime.inputs import checked_inputs
from relay_int8.runtime.manifest import Manifest
from relay_int8.runtime.module import refusal
from relay_int8.runtime.profiling import random_inputs

Array = np.ndarray[Any, Any]
RTOL, ATOL = 1e-5, 1e-6


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How an output differs from what was expected; ``largest`` is a difference of values."""

    name: str
    elements: int
    different: int
    largest: float


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """What a device did.

    Parameters
    ----------
    device
        What it is.
    outputs
        What it computed, by name.
    reference
        What the outputs were compared with; empty where there was nothing.
    comparisons
        One for each output, unless there was nothing to compare with.
    kernels
        What each kernel alone gave there; None where the outputs are equal.
    times_ms
        Of runs on the device by its own clock, each the mean of a series.
    seconds
        How long each stage took, the network between included.
    """

    device: Device
    outputs: Mapping[str, Array]
    reference: str
    comparisons: tuple[Comparison, ...]
    times_ms: tuple[float, ...]
    seconds: Mapping[str, float]
    kernels: KernelCheck | None = None


def deploy(
    artifact: Path | str,
    endpoint: Endpoint,
    *,
    inputs: Mapping[str, Array] | None = None,
    reference: Path | str | None = None,
    repeats: int = 10,
    timeout_s: float = 120.0,
) -> Deployment:
    """Run an artifact on a device, compare its outputs, time it there and clean up.

    Parameters
    ----------
    artifact
        File that ``relay-int8 quantize`` wrote.
    endpoint
        Where the device is.
    inputs
        By name; random ones, always the same, if None.
    reference
        An artifact of the same quantized model that runs on this computer, for one that does not.
    repeats
        Series of runs that are timed.
    timeout_s
        Seconds after which a device that does not answer is given up.

    Raises
    ------
    ArtifactError
        If an artifact is damaged, or the inputs are not its inputs.
    ConfigError
        If the reference is another model.
    DeployError
        If the device cannot be reached, does not fit, is lost, gets another library than the
        artifact's, or computes something else than expected; the message names the first kernel
        that is wrong.
    """
    artifact = Path(artifact)
    manifest = read_manifest(artifact)
    inputs = checked_inputs(artifact, manifest, inputs or random_inputs(manifest.inputs))
    judge = _judge(artifact, manifest, reference)
    expected = load(judge).run(inputs) if judge else {}
    if endpoint.tracker:
        endpoint.address.check_listening(
            "tracker", "start one: python -m tvm.exec.rpc_tracker, or mend the address"
        )
    client = _Client(endpoint, artifact, manifest, inputs, repeats, timeout_s)
    answer, arrays = client.ask()
    outputs = {info.name: arrays[str(i)] for i, info in enumerate(manifest.outputs)}
    comparisons = tuple(compare(name, outputs[name], expected[name]) for name in expected)
    kernels = None
    if judge and any(comparison.different for comparison in comparisons):
        kernels = _compared_kernels(client, judge)
        _check(comparisons, kernels, outputs, expected, manifest, endpoint.address)
    return Deployment(
        device=Device.of(answer["device"]),
        outputs=outputs,
        reference=str(judge or ""),
        comparisons=comparisons,
        kernels=kernels,
        times_ms=tuple(answer["times_ms"]),
        seconds=answer["seconds"],
    )


@dataclass(frozen=True)
class _Client:
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


def _compared_kernels(client: _Client, judge: Path) -> KernelCheck | None:
    """Return how kernels compare, each by itself; None where a batch is open."""
    with extracted(judge) as contents:
        reference = contents.manifest
        if not (_is_comparable(reference) and _is_comparable(client.manifest)):
            return None
        results = run_kernels(
            contents.library,
            "cuda" if reference.gpu else "cpu",
            [client.inputs[info.name] for info in reference.inputs],
            [kernel.function for kernel in reference.kernels],
            {},
            weights=contents.weights,
            all_results=True,
        )
    expected = expected_results(reference, results, client.manifest)
    _, different = client.ask(numbered(expected))
    return check_kernels(client.manifest.kernels, expected, by_number(different))


def _is_comparable(manifest: Manifest) -> bool:
    return all(kernel.shape is not None for kernel in manifest.kernels)


def compare(name: str, actual: Array, expected: Array) -> Comparison:
    """Compare two outputs bit for bit; of other shape or type, every element differs."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return Comparison(name=name, elements=actual.size, different=actual.size, largest=np.inf)
    bits = f"V{actual.itemsize}"
    different = np.ascontiguousarray(actual).view(bits) != np.ascontiguousarray(expected).view(bits)
    apart = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
    return Comparison(
        name=name,
        elements=actual.size,
        different=int(np.count_nonzero(different)),
        largest=float(apart[different.reshape(apart.shape)].max(initial=0.0)),
    )


def _judge(artifact: Path, manifest: Manifest, reference: Path | str | None) -> Path | None:
    """Return the artifact that says on this computer what the outputs have to be, if any does."""
    if reference is None:
        return None if refusal(manifest) else artifact
    digest = read_manifest(reference).model_digest
    if digest != manifest.model_digest:
        raise ConfigError(
            f"{reference}: model digest {digest[:16]}..., that of {artifact} is "
            f"{manifest.model_digest[:16]}...; a reference is made from the same calibration "
            "table with another --target"
        )
    return Path(reference)


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
                "with sessions of others; look at it, or allow more with --timeout"
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


def _check(
    comparisons: tuple[Comparison, ...],
    kernels: KernelCheck | None,
    outputs: Mapping[str, Array],
    expected: Mapping[str, Array],
    manifest: Manifest,
    address: Address,
) -> None:
    """Refuse outputs that differ by more than float rounding."""
    reason = (
        _without_kernels(comparisons, outputs, expected, manifest)
        if kernels is None
        else _wrong_kernel(kernels, len(manifest.kernels))
    )
    if reason:
        first = next(comparison for comparison in comparisons if comparison.different)
        raise DeployError(
            f"{address}: output {first.name}: {first.different} of {first.elements} values differ "
            f"from those expected, by up to {first.largest:.3g}; {reason}"
        )


def _wrong_kernel(kernels: KernelCheck, calls: int) -> str | None:
    """Say which kernel is wrong, or None where what differs is float rounding."""
    fault = kernels.fault
    if fault is None and kernels.differences:
        return None
    if fault is None:
        return (
            f"but {kernels.compared} of its {calls} kernels, each with the inputs it has here, "
            "gave equal bits: the device does not compute the same each time; do not use it, and "
            "look at its memory and clocks"
        )
    return (
        f"the first kernel that is wrong is {fault.result.function} (call {fault.index + 1} of "
        f"{calls}, tensor {fault.result.name}): with the inputs it has here, {fault.different} of "
        f"{fault.elements} values differ, by up to {fault.largest:.3g}; do not use this device "
        "for it, and report it: such a kernel computes the same everywhere"
    )


def _without_kernels(
    comparisons: tuple[Comparison, ...],
    outputs: Mapping[str, Array],
    expected: Mapping[str, Array],
    manifest: Manifest,
) -> str | None:
    """Say what is wrong with outputs alone: an artifact of an open batch lists no kernels."""
    near = all(
        comparison.largest < np.inf
        and np.allclose(
            outputs[comparison.name],
            expected[comparison.name],
            rtol=RTOL,
            atol=ATOL,
            equal_nan=True,
        )
        for comparison in comparisons
    )
    if near and manifest.coverage.get("float_layers"):
        return None
    return (
        "which kernel is wrong is not known, as the batch of the artifact or of its reference is "
        "open; build both again with a fixed batch, or do not use this device for it: an integer "
        "network computes the same everywhere"
    )
