"""The flavours of Arm: sdot, four products of s8 by s8 a lane, and usdot, of u8 by s8.

Source: Arm Architecture Reference Manual, SDOT (vector), USDOT (vector).
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies.vectors import broadcast
from schedules.cpu.dot import LANES, Dot

QUAD = 4  # lanes of a register


def _step(instruction: str, acc: Expr, x: Expr, w: Expr) -> Expr:
    """Return 16 lanes of ``acc`` plus four products each, a register of four lanes at a time."""
    word = broadcast(tirx.reinterpret("int32", x), QUAD)
    quads = [
        tirx.call_llvm_pure_intrin(
            f"int32x{QUAD}",
            f"llvm.aarch64.neon.{instruction}",
            _part(acc, lane, QUAD),
            tirx.reinterpret("int8x16", word),
            _part(w, lane * QUAD, QUAD * QUAD),
        )
        for lane in range(0, LANES, QUAD)
    ]
    return tirx.Shuffle(quads, list(range(LANES)))


def _part(vector: Expr, first: int, count: int) -> Expr:
    return tirx.Shuffle([vector], list(range(first, first + count)))


def _step_sdot(acc: Expr, x: Expr, w: Expr) -> Expr:
    return _step("sdot", acc, x, w)


def _step_usdot(acc: Expr, x: Expr, w: Expr) -> Expr:
    return _step("usdot", acc, x, w)


SDOT = Dot(name="sdot", x_types=("int8",), width=4, step=_step_sdot, feature="dotprod")
USDOT = Dot(name="usdot", x_types=("uint8",), width=4, step=_step_usdot, feature="i8mm")
