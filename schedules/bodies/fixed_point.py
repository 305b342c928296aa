"""Fixed-point requantization as expressions, of one lane or a vector of lanes.

A multiplier is 31 bits and a right shift: what is shifted is an int64 product. x86, Arm and NVIDIA
GPUs multiply two int32 to an int64 in one instruction (vpmuldq, smull, mul.wide.s32). Halves are
moved by what is added before the shift, so that no lane branches:

    half up         (p + half) >> shift
    half away       (p + half - (p < 0)) >> shift        where shift > 0

Exact:  equal to ``schedules.reference.exact.shift_right`` for products up to 2**62 + 2**41 in
        magnitude; ``half`` is at most 2**61.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies.vectors import cast
from schedules.spec import Rounding


def wide(value: Expr) -> Expr:
    """Return integer lanes as int64."""
    return cast(value, "int64")


def shift_right(product: Expr, shift: Expr, rounding: Rounding) -> Expr:
    """Return int64 ``product * 2**-shift``; shift is int64, 0 to 62."""
    if rounding == "tflite":
        return (product + _half(shift)) >> shift
    if rounding == "tpu-mlir":
        return _half_away(product, shift)
    first = tirx.min(shift, _number(31, shift))
    return _half_away((product + _half(first)) >> first, shift - first)


def to_integer(
    product: Expr, shift: Expr, z: Expr, bounds: tuple[Expr, Expr], dtype: str, rounding: Rounding
) -> Expr:
    """Return ``product`` shifted right, clamped to ``bounds``, plus ``z``, in ``dtype``.

    product is int64; shift, z and bounds are int32. All have equal lanes.
    """
    low, high = (wide(bound) for bound in bounds)
    steps = tirx.max(tirx.min(shift_right(product, wide(shift), rounding), high), low)
    return cast(cast(steps, "int32") + z, dtype)


def _half_away(x: Expr, shift: Expr) -> Expr:
    zero = _number(0, x)
    # Without a shift there is no half, and nothing to take off it.
    towards_zero = tirx.max(_half(shift) - wide(x < zero), zero)
    return (x + towards_zero) >> shift


def _half(shift: Expr) -> Expr:
    one = _number(1, shift)
    return (one << shift) >> one


def _number(value: int, like: Expr) -> Expr:
    return tirx.const(value, str(like.ty.dtype))
