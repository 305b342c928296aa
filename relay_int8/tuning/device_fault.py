"""Errors of a GPU's runtime that are no candidate's fault: they stop a run of the tuner.

CUDA says it in two ways: the runtime in a sentence (cudaGetErrorString), the driver by the name of
the error (cuGetErrorName). TVM quotes either.
"""

from __future__ import annotations

from dataclasses import dataclass

_MEMORY = "end what else holds its memory (nvidia-smi lists it)"
_BUSY = "another process has it alone: end that, or allow several with nvidia-smi -c DEFAULT"
_ABSENT = "look at nvidia-smi and at CUDA_VISIBLE_DEVICES"
_BROKEN = "look at nvidia-smi and at the system's log; it may need a reset"
FAULTS = {
    "out of memory": _MEMORY,
    "CUDA_ERROR_OUT_OF_MEMORY": _MEMORY,
    "busy or unavailable": _BUSY,
    "CUDA_ERROR_DEVICE_UNAVAILABLE": _BUSY,
    "no CUDA-capable device": _ABSENT,
    "CUDA_ERROR_NO_DEVICE": _ABSENT,
    "invalid device ordinal": _ABSENT,
    "CUDA_ERROR_INVALID_DEVICE": _ABSENT,
    "uncorrectable ECC error": _BROKEN,
    "CUDA_ERROR_ECC_UNCORRECTABLE": _BROKEN,
    "system not yet initialized": _BROKEN,
    "CUDA_ERROR_SYSTEM_NOT_READY": _BROKEN,
}
"""What an error message contains -> what to do."""


@dataclass(frozen=True)
class DeviceFault:
    """A GPU cannot be used now; ``reason`` says why and what to do."""

    reason: str


def fault_of(message: str) -> DeviceFault | None:
    """Return what an error message says of the GPU, None where it may be a candidate's."""
    for words, remedy in FAULTS.items():
        for line in message.splitlines():
            if words in line:
                return DeviceFault(f"{line.strip()}; {remedy}")
    return None
