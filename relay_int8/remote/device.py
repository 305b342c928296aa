"""What a device says of itself, and whether an artifact fits it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relay_int8.artifact import Manifest


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


def misfit(manifest: Manifest, device: Device) -> str | None:
    """Say why ``device`` cannot run an artifact, or None."""
    kind = manifest.target.get("kind", "llvm")
    if kind != "llvm":
        return f"the artifact is built for {kind}, deploy runs on the CPU of a device only"
    if manifest.machine != device.machine:
        return (
            f"the artifact is built for {manifest.machine}, the device is {device.machine} "
            f"({device.cpu}); quantize again with a --target for it"
        )
    missing = sorted(set(manifest.cpu_flags) - set(device.cpu_flags))
    if missing:
        return (
            f"the artifact is built for a CPU with {', '.join(missing)}, which the device "
            f"({device.cpu}) lacks; quantize again with a --target for it"
        )
    versions = {
        "apache-tvm": (manifest.tvm_version, device.tvm_version),
        "apache-tvm-ffi": (manifest.tvm_ffi_version, device.tvm_ffi_version),
    }
    for package, (wanted, found) in versions.items():
        if wanted != found:
            return (
                f"the artifact is built with {package} {wanted}, the device has {found}; "
                f"pip install {package}=={wanted} there, or quantize again with {found}"
            )
    return None
