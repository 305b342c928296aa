"""The x86 targets by name, as parameters of tests: skipped where the CPU lacks the instructions."""

import pytest

NEEDED = {"x86-vnni": "avx512_vnni", "x86-avx2": "avx2", "x86": None}
"""The flag of the CPU that stands for all a target needs."""


def case(target: str, *more: object):
    """Return the parameters of one test: ``target``, then ``more``."""
    flag = NEEDED[target]
    return pytest.param(target, *more, marks=[pytest.mark.isa(flag)] if flag else [])


X86 = [case(target) for target in NEEDED]
