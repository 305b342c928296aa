"""The NVIDIA GPUs of a computer, as their driver names them, and whether an artifact fits them.

Needs the driver's own library alone: no toolkit, no TVM.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schedules.cuda.device.gpus import capability

DRIVER = "libcuda.so.1"
_CAPABILITY = (75, 76)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
_MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
_NAME_BYTES = 256


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU: its name, its architecture as in "sm_90", the bytes of its memory.

    ``multiprocessors`` is how many it has: GPUs of one name may differ in it, and in what is fast;
    0 if it is not known.
    """

    name: str
    architecture: str
    memory_bytes: int
    multiprocessors: int = 0

    def __str__(self) -> str:
        return f"{self.name} ({self.architecture}, {self.memory_bytes / 2**30:.1f} GiB)"


@dataclass(frozen=True, kw_only=True)
class Gpus:
    """What a computer has.

    Parameters
    ----------
    devices
        In the order of their numbers.
    driver
        The newest CUDA that the driver serves, as in "13.0"; empty where there is no driver.
    problem
        Why there are none, and what to do; empty where there are some.
    """

    devices: tuple[Gpu, ...] = ()
    driver: str = ""
    problem: str = ""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Gpus:
        """Return what ``dataclasses.asdict`` made plain values of."""
        return cls(**{**values, "devices": tuple(Gpu(**device) for device in values["devices"])})

    def __str__(self) -> str:
        names = ", ".join(f"{number}: {device}" for number, device in enumerate(self.devices))
        return self.problem or f"{names}; driver for CUDA {self.driver}"

    @property
    def architectures(self) -> tuple[str, ...]:
        """Those of all devices."""
        return tuple(device.architecture for device in self.devices)


UNKNOWN = Gpus(problem="it is not known which GPUs there are")


@dataclass(frozen=True, kw_only=True)
class GpuNeeds:
    """What a library needs of a GPU and its driver.

    Parameters
    ----------
    architectures
        Those that it holds machine code of.
    ptx_architecture, ptx_version
        The oldest architecture that its PTX is for; the driver compiles that for all newer ones.
    driver
        The least CUDA that the driver has to serve, as in "13.0".
    memory_bytes
        Constants and activations, for one run at a time. The CUDA context comes on top.
    """

    architectures: tuple[str, ...]
    ptx_architecture: str
    ptx_version: str
    driver: str
    memory_bytes: int


class _DriverError(Exception):
    """The driver answers with an error; the message says which."""


class _Driver:
    """The few functions of NVIDIA's driver that say what there is."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)
        self._call("cuInit", 0)

    def version(self) -> str:
        """Return the CUDA version that the driver supports, as 12.6."""
        version = ctypes.c_int()
        self._call("cuDriverGetVersion", ctypes.byref(version))
        return f"{version.value // 1000}.{version.value % 1000 // 10}"

    def count(self) -> int:
        """Return how many GPUs this process may use."""
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def describe(self, number: int) -> Gpu:
        """Return what the driver says of GPU ``number``."""
        device, size = ctypes.c_int(), ctypes.c_size_t()
        name = ctypes.create_string_buffer(_NAME_BYTES)
        self._call("cuDeviceGet", ctypes.byref(device), number)
        self._call("cuDeviceGetName", name, _NAME_BYTES, device)
        self._call("cuDeviceTotalMem_v2", ctypes.byref(size), device)
        major, minor = (self._attribute(which, device) for which in _CAPABILITY)
        return Gpu(
            name=name.value.decode(errors="replace"),
            architecture=f"sm_{major}{minor}",
            memory_bytes=size.value,
            multiprocessors=self._attribute(_MULTIPROCESSORS, device),
        )

    def _attribute(self, which: int, device: ctypes.c_int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), which, device)
        return value.value

    def _call(self, function: str, *arguments: object) -> None:
        error = self._library[function](*arguments)
        if error == _NO_DEVICE:
            raise _DriverError("it sees no GPU; look at nvidia-smi and at CUDA_VISIBLE_DEVICES")
        if error:
            raise _DriverError(f"{function} failed with CUDA error {error}; look at nvidia-smi")


def installed_gpus(library: str = DRIVER) -> Gpus:
    """Return the GPUs of this computer; what is wrong becomes their ``problem``.

    Starts the driver in this process, whose children cannot use it any more when they are forked.
    """
    try:
        driver = _Driver(library)
    except (OSError, AttributeError):  # absent, or a stand-in that lacks a function
        return Gpus(
            problem=f"there is no NVIDIA driver ({library} cannot be loaded); install one, or let "
            "the container see it (docker run --gpus all)"
        )
    except _DriverError as error:
        return Gpus(problem=f"the NVIDIA driver does not start: {error}")
    try:
        version = driver.version()
        devices = tuple(driver.describe(number) for number in range(driver.count()))
    except _DriverError as error:
        return Gpus(problem=f"the NVIDIA driver does not describe its GPUs: {error}")
    problem = "" if devices else "the NVIDIA driver sees no GPU; look at nvidia-smi"
    return Gpus(devices=devices, driver=version, problem=problem)


def misfit(needs: GpuNeeds, gpus: Gpus, number: int = 0) -> str | None:
    """Say why GPU ``number`` cannot run a library, or None."""
    if gpus.problem:
        return f"it is built for NVIDIA GPUs, and {gpus.problem}"
    if number >= len(gpus.devices):
        return f"GPU {number} was asked for, there are {gpus}"
    if _numbers(gpus.driver) < _numbers(needs.driver):
        return (
            f"it needs a driver for CUDA {needs.driver} or newer, the driver here serves CUDA "
            f"{gpus.driver}; update the NVIDIA driver to branch 580 or newer, or, where the GPU is "
            f"a data centre's, install NVIDIA's package {compatibility_package(needs.driver)}, "
            "which serves newer CUDA on an older driver"
        )
    device = gpus.devices[number]
    if not _runs(needs, device.architecture):
        return (
            f"it holds code for {', '.join(needs.architectures)}, and PTX for "
            f"{needs.ptx_architecture} and newer; this GPU is {device}; "
            f"build it for architecture {device.architecture}, or for all"
        )
    if needs.memory_bytes > device.memory_bytes:
        return (
            f"it needs {needs.memory_bytes / 2**30:.1f} GiB of memory, this GPU is {device}; "
            "build it with a smaller batch"
        )
    return None


def compatibility_package(driver: str) -> str:
    """Return NVIDIA's package of forward compatibility for a CUDA, as cuda-compat-13-0 for 13.0."""
    return "-".join(("cuda-compat", *driver.split(".")))


def misfit_here(needs: GpuNeeds | None, number: int = 0) -> str | None:
    """Say why GPU ``number`` of this computer cannot run a library, or None; any CPU needs none."""
    return None if needs is None else misfit(needs, installed_gpus(), number)


def _runs(needs: GpuNeeds, architecture: str) -> bool:
    """Say whether machine code or PTX runs there: code within a generation, PTX on all newer."""
    here = capability(architecture)
    codes = [capability(name) for name in needs.architectures]
    if any(code // 10 == here // 10 and code <= here for code in codes):
        return True
    return capability(needs.ptx_architecture) <= here


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
