"""CPU flags, name and clocks of this computer; needs no TVM, so that loading stays cheap."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


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


def cpu_flags() -> frozenset[str]:
    """Return the instruction-set flags that /proc/cpuinfo names, as it spells them.

    x86 lists them as "flags", Arm as "Features"; empty where there is no /proc/cpuinfo.
    """
    flags: set[str] = set()
    for line in CPUINFO.read_text().splitlines() if CPUINFO.exists() else ():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            flags |= set(value.split())
    return frozenset(flags)


def lacking(needed: Iterable[str]) -> str:
    """Return the flags of ``needed`` that this CPU has not, as a list to read; "" if it has all."""
    return ", ".join(sorted(set(needed) - cpu_flags()))
