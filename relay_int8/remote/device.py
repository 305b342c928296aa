"""What a device says of itself, and whether an artifact fits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from relay_int8.machine import gpu
from relay_int8.machine.gpu import UNKNOWN, GpuNeeds, Gpus

if TYPE_CHECKING:
    from relay_int8.runtime.manifest import Manifest


@dataclass(frozen=True, kw_only=True)
class Device:
    """A computer that serves."""

    cpu: str
    machine: str
    cpu_flags: tuple[str, ...]
    threads: int
    tvm_version: str
    tvm_ffi_version: str
    project_version: str
    clocks: str = ""
    gpus: Gpus = UNKNOWN

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Device:
        """Return what :func:`relay_int8.remote.server_process.describe` made plain values of."""
        if "gpus" in values:
            values = {**values, "gpus": Gpus.of(values["gpus"])}
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What compiled code needs of a device; the fields are those of an artifact's manifest."""

    target: Mapping[str, Any]
    machine: str
    cpu_flags: tuple[str, ...]
    tvm_version: str = field(default_factory=lambda: version("apache-tvm"))
    tvm_ffi_version: str = field(default_factory=lambda: version("apache-tvm-ffi"))
    gpu: GpuNeeds | None = None

    @classmethod
    def of(cls, manifest: Manifest) -> Needs:
        """Return what an artifact needs."""
        return cls(
            target=manifest.target,
            machine=manifest.machine,
            cpu_flags=manifest.cpu_flags,
            tvm_version=manifest.tvm_version,
            tvm_ffi_version=manifest.tvm_ffi_version,
            gpu=manifest.gpu,
        )


def misfit(needs: Needs, device: Device) -> str | None:
    """Say why ``device`` cannot run compiled code, or None."""
    kind = needs.target.get("kind", "llvm")
    if kind != "llvm" and needs.gpu is None:
        return f"it is built for {kind}, only the CPU of a device is used"
    if needs.machine != device.machine:
        return (
            f"it is built for {needs.machine}, the device is {device.machine} "
            f"({device.cpu}); build it with a target for it"
        )
    missing = sorted(set(needs.cpu_flags) - set(device.cpu_flags))
    if missing:
        return (
            f"it is built for a CPU with {', '.join(missing)}, which the device "
            f"({device.cpu}) lacks; build it with a target for it"
        )
    versions = {
        "apache-tvm": (needs.tvm_version, device.tvm_version),
        "apache-tvm-ffi": (needs.tvm_ffi_version, device.tvm_ffi_version),
    }
    for package, (wanted, there) in versions.items():
        if wanted != there:
            return (
                f"it is built with {package} {wanted}, the device has {there}; "
                f"pip install {package}=={wanted} there, or build it again with {there}"
            )
    return None if needs.gpu is None else gpu.misfit(needs.gpu, device.gpus)
