"""The x86 targets by name, as parameters of tests: skipped where the CPU lacks the instructions."""

import pytest

X86 = [
    pytest.param("x86-vnni", marks=pytest.mark.isa("avx512_vnni")),
    pytest.param("x86-avx2", marks=pytest.mark.isa("avx2")),
    "x86",
]
