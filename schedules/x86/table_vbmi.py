"""Tables on AVX-512 VBMI: half a table is two registers, which one vpermi2b looks 64 bytes up in.

Source: Intel Intrinsics Guide, _mm512_permutex2var_epi8.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.cpu.table_vectors import Lookup, table_template

LANES = 64


def _find(x: Expr, parts: Sequence[Expr]) -> Expr:
    # The instruction goes by the low seven bits of x, the choice between the halves by the last.
    halves = [
        T.Bind(
            tirx.call_llvm_pure_intrin(
                f"int8x{LANES}", "llvm.x86.avx512.vpermi2var.qi.512", first, x, second
            )
        )
        for first, second in (parts[:2], parts[2:])
    ]
    return tirx.Select(x < tirx.Broadcast(tirx.const(0, "int8"), LANES), halves[1], halves[0])


TABLE_VBMI = table_template(
    Lookup(name="table_vbmi", feature="avx512vbmi", lanes=LANES, part=LANES, find=_find)
)
