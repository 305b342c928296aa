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
from schedules.template import ScheduleTemplate

PART = 16


def _find(instruction: str, lanes: int, x: Expr, parts: Sequence[Expr]) -> Expr:
    dtype, limit = f"int8x{lanes}", byte_everywhere(128 - PART, lanes)
    entries = byte_everywhere(0, lanes)
    for number, part in enumerate(parts):
        repeated = shuffle(part, list(range(PART)) * (lanes // PART))
        relative = x ^ byte_everywhere(PART * number, lanes)
        entry = tirx.call_llvm_pure_intrin(dtype, "llvm.uadd.sat", relative, limit)
        entries = entries | tirx.call_llvm_pure_intrin(dtype, instruction, repeated, entry)
    return entries


def _template(name: str, feature: str, lanes: int, instruction: str) -> ScheduleTemplate:
    find = partial(_find, instruction, lanes)
    return table_template(Lookup(name=name, feature=feature, lanes=lanes, part=PART, find=find))


TABLE_AVX512 = _template("table_avx512", "avx512bw", 64, "llvm.x86.avx512.pshuf.b.512")
TABLE_AVX2 = _template("table_avx2", "avx2", 32, "llvm.x86.avx2.pshuf.b")
