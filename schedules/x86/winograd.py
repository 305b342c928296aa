"""Winograd convolution on x86: pairs of int16 by vpdpwssd or vpmaddwd, 16 lanes of sums.

Sources: Intel Intrinsics Guide, _mm512_dpwssd_epi32, _mm256_madd_epi16.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies.epilogue import broadcast
from schedules.cpu.dot import LANES, Dot
from schedules.cpu.winograd import winograd_template
from schedules.x86.dots import BOTH, UNSIGNED
from schedules.x86.shuffles import dot_s16

PAIR = ("int16",)


def _pairs(x: Expr) -> Expr:
    """Return the two elements of ``x`` in each lane."""
    return tirx.reinterpret("int16x32", broadcast(tirx.reinterpret("int32", x), LANES))


def _step_vnni(acc: Expr, x: Expr, w: Expr) -> Expr:
    name = "llvm.x86.avx512.vpdpwssd.512"
    return tirx.call_llvm_pure_intrin("int32x16", name, acc, _pairs(x), w)


def _step_avx2(acc: Expr, x: Expr, w: Expr) -> Expr:
    return dot_s16(acc, _pairs(x), w)


WINOGRAD_VNNI = winograd_template(
    Dot(name="vnni", x_types=PAIR, width=2, step=_step_vnni, feature="avx512vnni"), UNSIGNED
)
WINOGRAD_AVX2 = winograd_template(
    Dot(name="avx2", x_types=PAIR, width=2, step=_step_avx2, feature="avx2"), BOTH
)
