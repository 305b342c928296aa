"""The peak that networks are measured against."""

from __future__ import annotations

import os

from relay_int8.machine.host import cpu_flags
from schedules.peak import peak
from schedules.targets import native_target
from schedules.x86.dots import VNNI


def vpdpbusd_peak(core: int) -> float | None:
    """Return multiplications per second of vpdpbusd on ``core``, None where there is none."""
    flags = cpu_flags()
    if "avx512_vnni" not in flags:
        return None
    os.sched_setaffinity(0, {core})
    return peak(VNNI, native_target(flags))
