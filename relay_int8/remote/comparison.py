"""Whether a device computed what was expected, and what to say where it did not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from relay_int8.errors import DeployError
from relay_int8.remote.address import Address
from relay_int8.remote.kernel_check import KernelCheck
from relay_int8.runtime.manifest import Manifest

Array = np.ndarray[Any, Any]
RTOL, ATOL = 1e-5, 1e-6  # of float outputs, where kernels cannot be judged one by one


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How an output differs from what was expected; ``largest`` is a difference of values."""

    name: str
    elements: int
    different: int
    largest: float


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


def check_outputs(
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
