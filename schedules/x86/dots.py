"""The flavours of x86: vpdpbusd, and vpmaddwd on widened bytes.

vpmaddubsw is not among them: it saturates its int16 sums.
Sources: Intel Intrinsics Guide, _mm512_dpbusd_epi32, _mm256_madd_epi16, _mm512_cvtps_epi32.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.cpu.dot import LANES, Dot
from schedules.cpu.epilogue import broadcast, cast
from schedules.x86.shuffles import dot_s16, dot_u8s8

MXCSR = 4  # round as the control register says: half to even


def _step_vnni(acc: Expr, x: Expr, w: Expr) -> Expr:
    return dot_u8s8(acc, tirx.reinterpret("uint8x64", _broadcast_word(x, "int32")), w)


def _step_avx2(acc: Expr, x: Expr, w: Expr) -> Expr:
    pair = _broadcast_word(cast(x, "int16"), "int32")
    return dot_s16(acc, tirx.reinterpret("int16x32", pair), cast(w, "int16"))


def _broadcast_word(x: Expr, word: str) -> Expr:
    return broadcast(tirx.reinterpret(word, x), LANES)


def _rint_avx512(x: Expr) -> Expr:
    zero = broadcast(tirx.const(0, "int32"), LANES)
    all_lanes, mode = tirx.const(0xFFFF, "uint16"), tirx.const(MXCSR, "int32")
    name = "llvm.x86.avx512.mask.cvtps2dq.512"
    return tirx.call_llvm_pure_intrin("int32x16", name, x, zero, all_lanes, mode)


VNNI = Dot(
    name="vnni",
    x_types=("uint8",),
    width=4,
    step=_step_vnni,
    feature="avx512vnni",
    rint=_rint_avx512,
)
AVX2 = Dot(name="avx2", x_types=("uint8", "int8"), width=2, step=_step_avx2, feature="avx2")
