"""The flavours of x86: vpdpbusd in two widths, and vpmaddwd on widened bytes, or on int16.

vpmaddubsw is not among them: it saturates its int16 sums. LLVM joins two vpmaddwd into one of
512 bits where there is AVX-512.
"""

from __future__ import annotations

import dataclasses

from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies.vectors import broadcast, cast
from schedules.cpu.dot import LANES, Dot
from schedules.cpu.lanes import shuffle
from schedules.x86.instructions import dot_s16, dot_u8s8, dot_u8s8_half
from schedules.x86.packed_stores import packed_pair, with_packed_stores


def _step_vnni(acc: Expr, x: Expr, w: Expr) -> Expr:
    return dot_u8s8(acc, _broadcast_word(x, "uint8x64"), w)


def _step_avxvnni(acc: Expr, x: Expr, w: Expr) -> Expr:
    word = broadcast(tirx.reinterpret("int32", x), 8)
    halves = [
        dot_u8s8_half(
            shuffle(acc, range(lane, lane + 8)), word, shuffle(w, range(4 * lane, 4 * lane + 32))
        )
        for lane in (0, 8)
    ]
    return tirx.Shuffle(halves, list(range(LANES)))


def _step_avx2(acc: Expr, x: Expr, w: Expr) -> Expr:
    return dot_s16(acc, _broadcast_word(cast(x, "int16"), "int16x32"), cast(w, "int16"))


def _broadcast_word(x: Expr, dtype: str) -> Expr:
    """Return the 32 bits of ``x`` in each lane, as ``dtype``."""
    return tirx.reinterpret(dtype, broadcast(tirx.reinterpret("int32", x), LANES))


UNSIGNED, BOTH = ("uint8",), ("uint8", "int8")
VNNI = Dot(
    name="vnni",
    x_types=UNSIGNED,
    width=4,
    step=_step_vnni,
    feature="avx512vnni",
    finish=with_packed_stores,
)
AVXVNNI = Dot(name="avxvnni", x_types=UNSIGNED, width=4, step=_step_avxvnni, feature="avxvnni")
AVX2 = Dot(
    name="avx2",
    x_types=BOTH,
    width=2,
    step=_step_avx2,
    feature="avx2",
    staged="int16",
    paired=packed_pair,
)
AVX2_WIDE = dataclasses.replace(AVX2, name="avx2_wide", weights="int16")
