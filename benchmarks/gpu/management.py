"""What NVIDIA's management library says while a GPU works: clocks, power, the driver's release.

It reads and never sets anything. Where it is not installed, nothing is known: the numbers stay
out of the report, and clocks are still measured by ``benchmarks.gpu.peaks``.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

LIBRARY = "libnvidia-ml.so.1"
_SM, _MEMORY = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM
_TEXT_BYTES = 96


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One look at a GPU; ``throttled`` are the bits of NVML's clock event reasons."""

    sm_mhz: int
    memory_mhz: int
    power_w: float
    celsius: int
    throttled: int


class Management:
    """The library, open for one GPU."""

    def __init__(self, number: int = 0, library: str = LIBRARY) -> None:
        """Raise OSError if there is no such library, or it does not answer."""
        self._library = ctypes.CDLL(library)
        self._call("nvmlInit_v2")
        self._device = ctypes.c_void_p()
        self._call(
            "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(number), ctypes.byref(self._device)
        )

    def driver(self) -> str:
        """Return the driver's release, as in 580.159.04."""
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        self._call("nvmlSystemGetDriverVersion", text, ctypes.c_uint(_TEXT_BYTES))
        return text.value.decode()

    def read(self) -> Reading:
        """Look at the GPU as it is now."""
        milliwatts = self._number("nvmlDeviceGetPowerUsage")
        throttled = ctypes.c_ulonglong()
        self._call(
            "nvmlDeviceGetCurrentClocksThrottleReasons", self._device, ctypes.byref(throttled)
        )
        return Reading(
            sm_mhz=self._number("nvmlDeviceGetClockInfo", _SM),
            memory_mhz=self._number("nvmlDeviceGetClockInfo", _MEMORY),
            power_w=milliwatts / 1e3,
            celsius=self._number("nvmlDeviceGetTemperature", 0),
            throttled=throttled.value,
        )

    def _number(self, function: str, *arguments: int) -> int:
        value = ctypes.c_uint()
        chosen = (ctypes.c_int(argument) for argument in arguments)
        self._call(function, self._device, *chosen, ctypes.byref(value))
        return value.value

    def _call(self, function: str, *arguments: object) -> None:
        try:
            error = self._library[function](*arguments)
        except AttributeError as missing:
            raise OSError(f"{LIBRARY} has no {function}") from missing
        if error:
            raise OSError(f"{function} failed with NVML error {error}")
