"""Winograd convolution on x86: pairs of int16 by vpdpwssd or vpmaddwd, 16 lanes of sums.

Sources: Intel Intrinsics Guide, _mm512_dpwssd_epi32, _mm256_dpwssd_avx_epi32, _mm256_madd_epi16.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies.vectors import broadcast
from schedules.cpu.dot import LANES, Dot
from schedules.cpu.lanes import shuffle
from schedules.cpu.winograd.winograd_rule import TALLEST
from schedules.cpu.winograd.winograd_template import winograd_template
from schedules.x86.dots import AVX2, AVXVNNI, VNNI
from schedules.x86.instructions import dot_s16

PAIR = ("int16",)


def _pairs(x: Expr) -> Expr:
    """Return the two elements of ``x`` in each lane."""
    return tirx.reinterpret("int16x32", broadcast(tirx.reinterpret("int32", x), LANES))


def _step_vnni(acc: Expr, x: Expr, w: Expr) -> Expr:
    name = "llvm.x86.avx512.vpdpwssd.512"
    return tirx.call_llvm_pure_intrin("int32x16", name, acc, _pairs(x), w)


def _step_avxvnni(acc: Expr, x: Expr, w: Expr) -> Expr:
    halves = [
        tirx.call_llvm_pure_intrin(
            "int32x8",
            "llvm.x86.avx512.vpdpwssd.256",
            shuffle(acc, range(lane, lane + 8)),
            shuffle(_pairs(x), range(16)),
            shuffle(w, range(2 * lane, 2 * lane + 16)),
        )
        for lane in (0, 8)
    ]
    return tirx.Shuffle(halves, list(range(LANES)))


def _step_avx2(acc: Expr, x: Expr, w: Expr) -> Expr:
    return dot_s16(acc, _pairs(x), w)


WINOGRAD_VNNI = winograd_template(
    Dot(name="vnni", x_types=PAIR, width=2, step=_step_vnni, feature="avx512vnni"),
    VNNI,
    tallest=TALLEST,
)
WINOGRAD_AVXVNNI = winograd_template(
    Dot(name="avxvnni", x_types=PAIR, width=2, step=_step_avxvnni, feature="avxvnni"),
    AVXVNNI,
    tallest=2,
)
WINOGRAD_AVX2 = winograd_template(
    Dot(name="avx2", x_types=PAIR, width=2, step=_step_avx2, feature="avx2"), AVX2, tallest=2
)
