"""Tables without VBMI: sixteen parts of 16 bytes, in each of which pshufb looks up.

A byte of x belongs to the part of its upper four bits. ``x ^ 16 part`` is below 16 there, and 16 or
more elsewhere; adding 112, saturated, keeps its lower four bits and sets its highest bit elsewhere,
where pshufb gives zero. The parts are joined by or.

Source: Intel Intrinsics Guide, _mm256_shuffle_epi8, _mm512_shuffle_epi8.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tvm import tirx
from tvm.tirx import Expr

from schedules.cpu.lanes import shuffle
from schedules.cpu.table_vectors import Lookup, byte_everywhere, table_template

PART = 16


def _find(instruction: str, lanes: int, x: Expr, parts: Sequence[Expr]) -> Expr:
    dtype, limit = f"int8x{lanes}", byte_everywhere(128 - PART, lanes)
    found = byte_everywhere(0, lanes)
    for number, part in enumerate(parts):
        repeated = shuffle(part, list(range(PART)) * (lanes // PART))
        own = x ^ byte_everywhere(PART * number, lanes)
        entry = tirx.call_llvm_pure_intrin(dtype, "llvm.uadd.sat", own, limit)
        found = found | tirx.call_llvm_pure_intrin(dtype, instruction, repeated, entry)
    return found


TABLE_AVX512 = table_template(
    Lookup(
        name="table_avx512",
        feature="avx512bw",
        lanes=64,
        part=PART,
        find=partial(_find, "llvm.x86.avx512.pshuf.b.512", 64),
    )
)
TABLE_AVX2 = table_template(
    Lookup(
        name="table_avx2",
        feature="avx2",
        lanes=32,
        part=PART,
        find=partial(_find, "llvm.x86.avx2.pshuf.b", 32),
    )
)
