"""The dot-product instructions of x86, vpdpbusd and vpmaddwd, as expressions on vectors.

Sources: Intel Intrinsics Guide, _mm512_dpbusd_epi32, _mm256_dpbusd_avx_epi32, _mm256_madd_epi16.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.cpu.lanes import shuffle


def dot_u8s8(acc: Expr, x: Expr, w: Expr) -> Expr:
    """Return int32x16 ``acc`` plus, in each lane, the four products of uint8x64 x and int8x64 w."""
    return tirx.call_llvm_pure_intrin(
        "int32x16", "llvm.x86.avx512.vpdpbusd.512", acc, tirx.reinterpret("int8x64", x), w
    )


def dot_u8s8_half(acc: Expr, x: Expr, w: Expr) -> Expr:
    """Return what ``dot_u8s8`` does, on eight lanes: int32x8, uint8x32 and int8x32."""
    return tirx.call_llvm_pure_intrin(
        "int32x8", "llvm.x86.avx512.vpdpbusd.256", acc, tirx.reinterpret("int8x32", x), w
    )


def dot_s16(acc: Expr, x: Expr, w: Expr) -> Expr:
    """Return int32x16 ``acc`` plus, in each lane, the two products of int16x32 x and w.

    Exact where no product is ``-32768 * -32768``, twice in one lane.
    """
    halves = [
        tirx.call_llvm_pure_intrin(
            "int32x8", "llvm.x86.avx2.pmadd.wd", *(shuffle(v, range(i, i + 16)) for v in (x, w))
        )
        for i in (0, 16)
    ]
    return acc + tirx.Shuffle(halves, list(range(16)))


def dot_s16_half(acc: Expr, x: Expr, w: Expr) -> Expr:
    """Return what ``dot_s16`` does, on eight lanes: int32x8, and int16x16 twice."""
    return acc + tirx.call_llvm_pure_intrin("int32x8", "llvm.x86.avx2.pmadd.wd", x, w)
