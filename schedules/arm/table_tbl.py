"""Tables on AArch64: four parts of 64 bytes, in each of which one tbl or tbx looks 16 bytes up.

tbl gives zero where its index is 64 or more, tbx leaves what was there.

Source: Arm Intrinsics Reference, vqtbl4q_u8, vqtbx4q_u8.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.tirx import Expr

from schedules.cpu.table_vectors import Lookup, byte_everywhere, table_template

LANES = 16


def _find(x: Expr, parts: Sequence[Expr]) -> Expr:
    dtype = f"int8x{LANES}"
    entries = tirx.call_llvm_pure_intrin(dtype, "llvm.aarch64.neon.tbl4", *parts[:4], x)
    for first in range(4, len(parts), 4):
        entry = x - byte_everywhere(LANES * first, LANES)
        entries = tirx.call_llvm_pure_intrin(
            dtype, "llvm.aarch64.neon.tbx4", entries, *parts[first : first + 4], entry
        )
    return entries


TABLE_TBL = table_template(
    Lookup(name="table_tbl", feature="neon", lanes=LANES, part=LANES, find=_find)
)
