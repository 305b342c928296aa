"""The x86 targets by name, as parameters of tests: skipped where the CPU lacks the instructions."""

import pytest

from schedules.cpu_flags import cpu_flags

NEEDED = {"x86-vnni": "avx512_vnni", "x86-avx2": "avx2", "x86": None}
"""The flag of the CPU that stands for all a target needs, the fastest target first."""

FASTEST = next(name for name, flag in NEEDED.items() if flag is None or flag in cpu_flags())
"""The fastest target that this computer runs: that of tests that one target is enough for."""


def case(target: str, *more: object):
    """Return the parameters of one test: ``target``, then ``more``."""
    flag = NEEDED[target]
    return pytest.param(target, *more, marks=[pytest.mark.isa(flag)] if flag else [])


X86 = [case(target) for target in NEEDED]
