"""Sums, products, quotients and extremes of numbers, as PTX has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.cuda.ptx.operation import Array, Modifiers, Operation, is_float, require_known
from tests.cuda.ptx.types import DTYPES


def same(function: Callable[..., Array], count: int) -> Callable[[Modifiers], Operation]:
    """Return the row of a function whose operands and result have one type."""

    def row(modifiers: Modifiers) -> Operation:
        *rest, dtype = modifiers
        require_known(tuple(rest), *(("rn",) if is_float(dtype) else ()))
        return Operation((dtype,) * count, function, dtype)

    return row


def _wide(dtype: str) -> str:
    return f"{dtype[0]}{2 * int(dtype[1:])}"


def _product(modifiers: Modifiers) -> tuple[Callable[[Array, Array], Array], str, str]:
    """Return how two factors are multiplied, their type, and that of the product."""
    *rest, dtype = modifiers
    if is_float(dtype):
        require_known(tuple(rest), "rn")
        return np.multiply, dtype, dtype
    (part,) = rest
    wide = DTYPES[_wide(dtype)] if dtype[1:] != "64" else None
    if part == "lo":
        return np.multiply, dtype, dtype
    if part == "wide" and wide:
        return lambda a, b: a.astype(wide) * b.astype(wide), dtype, _wide(dtype)
    if part == "hi" and not wide:
        return (_high_unsigned if dtype == "u64" else _high_signed), dtype, dtype
    if part == "hi" and wide:
        bits = int(dtype[1:])

        def high(a: Array, b: Array) -> Array:
            return (a.astype(wide) * b.astype(wide) >> wide.type(bits)).astype(DTYPES[dtype])

        return high, dtype, dtype
    raise ValueError(part)


def _high_unsigned(a: Array, b: Array) -> Array:
    """Return the upper 64 bits of products of 64 bits, by halves."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a_low, a_high, b_low, b_high = a & low, a >> half, b & low, b >> half
    middle = a_high * b_low + (a_low * b_low >> half)
    other = a_low * b_high + (middle & low)
    return a_high * b_high + (middle >> half) + (other >> half)


def _high_signed(a: Array, b: Array) -> Array:
    """Return the same of signed numbers: a negative one is 2^64 too large as an unsigned one."""
    high = _high_unsigned(a.view(np.uint64), b.view(np.uint64)).view(np.int64)
    return high - np.where(a < 0, b, 0) - np.where(b < 0, a, 0)


def mul(modifiers: Modifiers) -> Operation:
    multiply, dtype, result = _product(modifiers)
    return Operation((dtype, dtype), multiply, result)


def mad(modifiers: Modifiers) -> Operation:
    if is_float(modifiers[-1]):
        return fma(modifiers)
    multiply, dtype, result = _product(modifiers)
    return Operation((dtype, dtype, result), lambda a, b, c: multiply(a, b) + c, result)


def fma(modifiers: Modifiers) -> Operation:
    if modifiers != ("rn", "f32"):
        raise ValueError(modifiers)
    return Operation(("f32",) * 3, fused_multiply_add, "f32")


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c of float32, rounded once.

    The product is exact in float64. Their sum is rounded to odd, so that rounding it again, to
    float32, is as if it were rounded once (Boldo and Melquiond, 2008).
    """
    product = np.float64(a) * np.float64(b)
    addend = np.float64(c)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    even = (bits & 1 == 0) & (error != 0) & np.isfinite(total)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.asarray(bits + np.where(even, step, 0)).view(np.float64).astype(np.float32)


def divide(modifiers: Modifiers) -> Operation:
    *rest, dtype = modifiers
    if is_float(dtype):
        require_rounded(rest)
        return Operation((dtype, dtype), np.divide, dtype)
    require_known(tuple(rest))

    def quotient(a: Array, b: Array) -> Array:  # towards zero
        return (a - np.fmod(a, b)) // b

    return Operation((dtype, dtype), quotient, dtype)


def rounded_unary(function: Callable[[Array], Array]) -> Callable[[Modifiers], Operation]:
    def row(modifiers: Modifiers) -> Operation:
        *rest, dtype = modifiers
        require_rounded(rest)
        return Operation((dtype,), function, dtype)

    return row


def require_rounded(rest: list[str]) -> None:
    if rest != ["rn"]:
        raise ValueError(rest)


def extreme(of_numbers: Callable[..., Array], of_zeros: Callable[..., Array]) -> Any:
    """Return the row of min or max: of a number and NaN, the number; +0 is more than -0."""

    def of_floats(a: Array, b: Array) -> Array:
        found = of_numbers(a, b)
        bits = f"u{found.dtype.itemsize}"
        zeros = of_zeros(a.view(bits), b.view(bits)).view(found.dtype)
        return np.where((a == 0) & (b == 0), zeros, found)

    def row(modifiers: Modifiers) -> Operation:
        (dtype,) = modifiers
        return Operation((dtype, dtype), of_floats if is_float(dtype) else of_numbers, dtype)

    return row
