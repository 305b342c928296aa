"""Window kernels of AVX2 hold 16 channels in the order in which its instructions interleave them.

Instructions of 256 bits work in each half of a register by itself. So one register holds channels 0
to 3 and 8 to 11, the other 4 to 7 and 12 to 15: what vpunpcklwd and vpunpckhwd make of two
neighbouring pixels, and what vpackssdw puts in order again. If registers held channels in their
order, halves of registers would have to be exchanged (vperm2i128) for each pixel that is read.

Exact:  bit-identical to natural order: saturation to int16 comes before a maximum with ``low``, no
        less than -255, as in ``schedules.x86.packed_stores``.
Source: Intel Intrinsics Guide, _mm256_unpacklo_epi16, _mm256_packs_epi32, _mm_packus_epi16.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.cpu.dot import LANES
from schedules.cpu.lanes import shuffle
from schedules.x86.packed_stores import rounded, words_of_halves

ORDER = (0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15)  # and its own inverse
PACKED_HALVES = {"uint8": "llvm.x86.sse2.packuswb.128", "int8": "llvm.x86.sse2.packsswb.128"}


def in_order(value: Expr) -> Expr:
    """Return the value of an epilogue, held in ``ORDER``, with its channels in order."""
    parts = rounded(value, tuple(PACKED_HALVES))
    if parts is None:
        return shuffle(value, ORDER)
    words = T.Bind(words_of_halves(parts))
    halves = [tirx.Shuffle([words], list(range(lane, lane + 8))) for lane in (0, 8)]
    packed = tirx.call_llvm_pure_intrin(f"int8x{LANES}", PACKED_HALVES[parts.dtype], *halves)
    return tirx.reinterpret(f"{parts.dtype}x{LANES}", packed)
