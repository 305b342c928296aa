"""The peak that networks are measured against."""

from __future__ import annotations

import os

from schedules.cpu_flags import cpu_flags
from schedules.peak import peak
from schedules.targets import native_target
from schedules.x86.dots import VNNI


def vpdpbusd_peak(core: int) -> float | None:
    """Return multiplications per second of vpdpbusd on ``core``, None where there is none."""
    if "avx512_vnni" not in cpu_flags():
        return None
    os.sched_setaffinity(0, {core})
    return peak(VNNI, native_target())
