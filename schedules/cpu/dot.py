"""Instruction flavour of the templates of convolution and dense: a dot product of lanes.

One step adds, in each of 16 lanes, ``width`` products of neighbouring input channels to an
accumulator. The loops around it are the same for every flavour.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tvm import tirx
from tvm.target import Target
from tvm.tirx import Expr

from schedules.bodies.vectors import broadcast, cast
from schedules.target_features import has_feature

LANES = 16


def as_scheduled(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel as it is."""
    return func


def as_they_are(first: Expr, second: Expr) -> tuple[Expr, Expr]:
    """Return two values."""
    return first, second


@dataclass(frozen=True, kw_only=True)
class Dot:
    """One way to add products of x and w to 16 accumulators.

    Parameters
    ----------
    name
        Ends the names of its templates.
    x_types
        The types of x it multiplies.
    width
        Products summed into each lane by one step.
    step
        ``(acc, x, w)`` -> acc plus the products; x has ``width`` elements, w ``16 * width``:
        those of lane 0, those of lane 1, ...
    feature
        LLVM's name of the target feature it needs, or None.
    staged
        The type of the copy of x that ``step`` takes; None where it takes x as it is.
    weights
        The type of w in memory, where x is of integers.
    paired
        Two values of an epilogue -> the same, with steps that they share.
    finish
        Scheduled convolution -> the same with what else the instruction set offers.
    """

    name: str
    x_types: tuple[str, ...]
    width: int
    step: Callable[[Expr, Expr, Expr], Expr]
    feature: str | None = None
    staged: str | None = None
    weights: str = "int8"
    paired: Callable[[Expr, Expr], tuple[Expr, Expr]] = field(default=as_they_are)
    finish: Callable[[tirx.PrimFunc], tirx.PrimFunc] = field(default=as_scheduled)

    @property
    def float32(self) -> bool:
        """Whether it multiplies floats."""
        return self.x_types == ("float32",)

    @property
    def packs(self) -> bool:
        """Whether its convolutions round columns by fours."""
        return self.finish is not as_scheduled

    def refuses(self, x: str, target: Target) -> str | None:
        """Say why the instruction cannot multiply ``x`` on ``target``, or None."""
        if target.kind.name != "llvm":
            return f"target is {target.kind.name}, not llvm"
        if x not in self.x_types:
            return f"x is {x}, not {' or '.join(self.x_types)}"
        if self.feature and not has_feature(self.feature, target):
            return f"target cpu {target.attrs.get('mcpu', 'generic')} lacks {self.feature}"
        return None


def accumulators(target: Target, *, lean: bool = False) -> int:
    """Return how many accumulators of 16 lanes stay in registers, beside weights and x.

    ``lean`` says that a step needs one register for x and none for products.
    """
    if has_feature("avx512f", target):
        return 16  # of 32; LLVM spills at 28
    if has_feature("avx2", target):
        return 5 if lean else 4  # two of 16 registers each
    return 4 if has_feature("neon", target) else 3  # four of 32 or of 16


def _multiply_s16(acc: Expr, x: Expr, w: Expr) -> Expr:
    # |u8 * s8| <= 255 * 128 < 2**15: int16 products are exact, and twice as many fit a register.
    product = broadcast(x.astype("int16"), LANES) * cast(w, "int16")
    return acc + cast(product, "int32")


def _multiply_s32(acc: Expr, x: Expr, w: Expr) -> Expr:
    # |u8| * 255 does not fit int16.
    return acc + broadcast(x.astype("int32"), LANES) * cast(w, "int32")


def _multiply_f32(acc: Expr, x: Expr, w: Expr) -> Expr:
    # Contracted where there is an instruction; an explicit fma is a call where there is none.
    return acc + broadcast(x, LANES) * w


PLAIN = Dot(name="plain", x_types=("uint8", "int8"), width=1, step=_multiply_s16)
PLAIN_WIDE = Dot(
    name="plain_wide", x_types=("uint8", "int8"), width=1, step=_multiply_s32, weights="int16"
)
F32 = Dot(name="f32", x_types=("float32",), width=1, step=_multiply_f32)


def bits_select(inside: Expr, x: Expr, fill: Expr) -> Expr:
    """Return ``x`` where ``inside``, else ``fill`` in each lane, without a branch.

    A Select of loads would become a branch, and a branch inside a register tile costs its speed.
    """
    dtype = x.ty.dtype
    word = f"int{dtype.bits * dtype.lanes}"
    mask = tirx.const(0, word) - inside.astype(word)
    kept = tirx.reinterpret(word, x) & mask
    filled = tirx.reinterpret(word, broadcast(fill, dtype.lanes)) & (mask ^ tirx.const(-1, word))
    return tirx.reinterpret(str(dtype), kept | filled)
