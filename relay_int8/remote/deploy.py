"""Run an artifact on another device, over TVM's RPC, and check there that it is the same network.

The device must run ``relay-int8 serve``. What comes back is compared with what this computer
computes, bit for bit. Where outputs differ, the device runs the network again, kernel by kernel,
each with the inputs that it has here: what is wrong is the first kernel whose integers differ, or
whose floats do by more than rounding; if there is none, the outputs differ by float rounding alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relay_int8.argument_types import checked
from relay_int8.errors import ConfigError
from relay_int8.remote.address import Endpoint
from relay_int8.remote.client_call import ClientCall
from relay_int8.remote.comparison import Comparison, check_outputs, compare
from relay_int8.remote.device import Device
from relay_int8.remote.kernel_check import KernelCheck, check_kernels, expected_results
from relay_int8.remote.kernel_run import by_number, numbered, run_kernels
from relay_int8.runtime.artifact import extracted, load, read_manifest
from relay_int8.runtime.inputs import checked_inputs
from relay_int8.runtime.manifest import Manifest
from relay_int8.runtime.module import refusal
from relay_int8.runtime.profiling import random_inputs

Array = np.ndarray[Any, Any]


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


@checked
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
    client = ClientCall(endpoint, artifact, manifest, inputs, repeats, timeout_s)
    answer, arrays = client.ask()
    outputs = {info.name: arrays[str(i)] for i, info in enumerate(manifest.outputs)}
    comparisons = tuple(compare(name, outputs[name], expected[name]) for name in expected)
    kernels = None
    if judge and any(comparison.different for comparison in comparisons):
        kernels = _compared_kernels(client, judge)
        check_outputs(comparisons, kernels, outputs, expected, manifest, endpoint.address)
    return Deployment(
        device=Device.of(answer["device"]),
        outputs=outputs,
        reference=str(judge or ""),
        comparisons=comparisons,
        kernels=kernels,
        times_ms=tuple(answer["times_ms"]),
        seconds=answer["seconds"],
    )


def _compared_kernels(client: ClientCall, judge: Path) -> KernelCheck | None:
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


def _judge(artifact: Path, manifest: Manifest, reference: Path | str | None) -> Path | None:
    """Return the artifact that says on this computer what the outputs have to be, if any does."""
    if reference is None:
        return None if refusal(manifest) else artifact
    digest = read_manifest(reference).model_digest
    if digest != manifest.model_digest:
        raise ConfigError(
            f"{reference}: model digest {digest[:16]}..., that of {artifact} is "
            f"{manifest.model_digest[:16]}...; a reference is made from the same calibration "
            "table with another target"
        )
    return Path(reference)
