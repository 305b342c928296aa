"""What this computer's CPU can do, as /proc/cpuinfo says; needs no TVM."""

from __future__ import annotations

from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


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
