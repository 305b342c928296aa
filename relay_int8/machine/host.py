"""Name and clocks of this computer's CPU, and what code needs that it lacks; needs no TVM."""

from __future__ import annotations

import platform
from collections.abc import Iterable

from schedules.cpu_flags import CPUINFO, cpu_flags


def cpu_name() -> str:
    """Return the CPU's model as /proc/cpuinfo names it, else the machine's architecture."""
    for line in CPUINFO.read_text().splitlines() if CPUINFO.exists() else ():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def clocks() -> str:
    """Return the clocks of the cores as /proc/cpuinfo has them now, "" where it has none."""
    lines = CPUINFO.read_text().splitlines() if CPUINFO.exists() else []
    clocks_mhz = [line.partition(":")[2].strip() for line in lines if line.startswith("cpu MHz")]
    return f"{', '.join(clocks_mhz)} MHz" if clocks_mhz else ""


def lacking(needed: Iterable[str]) -> str:
    """Return the flags of ``needed`` that this CPU has not, as a list to read; "" if it has all."""
    return ", ".join(sorted(set(needed) - cpu_flags()))
