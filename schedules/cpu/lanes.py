"""Instruction flavour of depthwise and small-group convolutions: each lane has its own x.

Beside ``schedules.cpu.dot``, where all lanes multiply the same x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.vectors import cast, fma
from schedules.cpu.dot import F32, LANES, PLAIN, PLAIN_WIDE, Dot, as_scheduled


def as_they_are(value: Expr) -> Expr:
    """Return lanes that are held in the order of the channels."""
    return value


@dataclass(frozen=True, kw_only=True)
class Lanes:
    """One way to add products to 16 accumulators, ``dot.width`` of them in each lane.

    Parameters
    ----------
    dot
        The instruction.
    step
        ``(acc, x, w)`` -> acc plus the products, in ``16 / parts`` lanes; x and w have ``width``
        elements a lane: those of its lane 0, those of lane 1, ...
    parts
        How many registers the 16 accumulators are.
    order
        Which channels of a block these registers hold, one after the other; w has them so too.
    in_order
        The lanes of an epilogue's value, in ``order`` -> the same in the order of the channels.
    staged
        The type of x that ``step`` takes; None where it takes x as it is.
    weights
        The type of w that ``step`` takes.
    finish
        Scheduled kernel -> the same with what else the instruction set offers.
    """

    dot: Dot
    step: Callable[[Expr, Expr, Expr], Expr]
    staged: str | None = None
    weights: str
    parts: int = 1
    order: tuple[int, ...] = tuple(range(LANES))
    in_order: Callable[[Expr], Expr] = field(default=as_they_are)
    finish: Callable[[tirx.PrimFunc], tirx.PrimFunc] = field(default=as_scheduled)

    def held(self, channels: Expr) -> Expr:
        """Return 16 channels in the order in which registers hold them."""
        return shuffle(channels, self.order)


def _step_s16(acc: Expr, x: Expr, w: Expr) -> Expr:
    # |u8 * s8| <= 255 * 128 < 2**15: int16 products are exact, and twice as many fit a register.
    return acc + cast(cast(x, "int16") * cast(w, "int16"), "int32")


def _step_s32(acc: Expr, x: Expr, w: Expr) -> Expr:
    return acc + cast(x, "int32") * cast(w, "int32")


def _step_f32(acc: Expr, x: Expr, w: Expr) -> Expr:
    return fma(x, w, acc)


PLAIN_LANES = Lanes(dot=PLAIN, step=_step_s16, weights="int8")
PLAIN_WIDE_LANES = Lanes(dot=PLAIN_WIDE, step=_step_s32, weights="int16")
F32_LANES = Lanes(dot=F32, step=_step_f32, weights="float32")


def shuffle(x: Expr, order: Sequence[int]) -> Expr:
    """Return the elements of vector ``x`` at the constant positions ``order``.

    Left to LLVM to lower: vpermb with AVX512-VBMI, vpermd and vpshufb without, ...
    """
    count = int(x.ty.dtype.lanes)
    if list(order) == list(range(count)):
        return x
    # TVM wants no more positions than elements given, so a longer result repeats x.
    return tirx.Shuffle([x] * -(-len(order) // count), list(order))


def joined(value: Expr, join: Callable[[Expr, Expr], Expr]) -> Expr:
    """Return one lane made of all lanes of a vector, whose order does not matter to ``join``."""
    count = int(value.ty.dtype.lanes)
    while count > 1:
        count //= 2
        bound = T.Bind(value)
        value = join(
            tirx.Shuffle([bound], list(range(count))),
            tirx.Shuffle([bound], list(range(count, 2 * count))),
        )
    return value
