"""The peak that networks are measured against."""

from __future__ import annotations

import os

from schedules.peak import best_dot, peak
from schedules.targets import native_target


def integer_peak(core: int) -> float | None:
    """Return multiplications of integers per second of ``core``, by its best instruction."""
    os.sched_setaffinity(0, {core})
    dot = best_dot(native_target())
    return None if dot is None else peak(dot, native_target())
