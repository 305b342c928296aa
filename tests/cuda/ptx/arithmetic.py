"""What an arithmetic instruction computes, in pure NumPy: a row of the table for each opcode.

Only what is rounded as IEEE 754 says has a meaning here: approximations and flushed denormals, which
differ from GPU to GPU, are unknown.

Source: PTX ISA, chapter "Instruction Set".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.cuda.ptx.errors import UnknownPtxError
from tests.cuda.ptx.types import DTYPES

Array = Any  # ndarray or scalar of NumPy
Modifiers = tuple[str, ...]


@dataclass(frozen=True)
class Operation:
    """The types of the operands, and the function of arrays that gives the result."""

    sources: tuple[str, ...]
    compute: Callable[..., Array]
    result: str


def operation(name: str, modifiers: Modifiers) -> Operation:
    """Return what an instruction computes.

    Raises
    ------
    UnknownPtxError
        If the table has none of that name, or it has another meaning with these modifiers.
    """
    try:
        return OPERATIONS[name](modifiers)
    except (KeyError, ValueError, IndexError) as error:
        raise UnknownPtxError(f"no meaning of {'.'.join((name, *modifiers))} is known") from error


def _known(modifiers: Modifiers, *allowed: str) -> None:
    if set(modifiers) - set(allowed):
        raise ValueError(f"{modifiers} is not among {allowed}")


def _is_float(dtype: str) -> bool:
    return DTYPES[dtype].kind == "f"


# Sums and products


def _same(function: Callable[..., Array], count: int) -> Callable[[Modifiers], Operation]:
    """Return the row of a function whose operands and result have one type."""

    def row(modifiers: Modifiers) -> Operation:
        *rest, dtype = modifiers
        _known(tuple(rest), *(("rn",) if _is_float(dtype) else ()))
        return Operation((dtype,) * count, function, dtype)

    return row


def _wide(dtype: str) -> str:
    return f"{dtype[0]}{2 * int(dtype[1:])}"


def _product(modifiers: Modifiers) -> tuple[Callable[[Array, Array], Array], str, str]:
    """Return how two factors are multiplied, their type, and that of the product."""
    *rest, dtype = modifiers
    if _is_float(dtype):
        _known(tuple(rest), "rn")
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


def _mul(modifiers: Modifiers) -> Operation:
    multiply, dtype, result = _product(modifiers)
    return Operation((dtype, dtype), multiply, result)


def _mad(modifiers: Modifiers) -> Operation:
    if _is_float(modifiers[-1]):
        return _fma(modifiers)
    multiply, dtype, result = _product(modifiers)
    return Operation((dtype, dtype, result), lambda a, b, c: multiply(a, b) + c, result)


def _fma(modifiers: Modifiers) -> Operation:
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


def _divide(modifiers: Modifiers) -> Operation:
    *rest, dtype = modifiers
    if _is_float(dtype):
        _require_rounded(rest)
        return Operation((dtype, dtype), np.divide, dtype)
    _known(tuple(rest))

    def quotient(a: Array, b: Array) -> Array:  # towards zero
        return (a - np.fmod(a, b)) // b

    return Operation((dtype, dtype), quotient, dtype)


def _rounded_unary(function: Callable[[Array], Array]) -> Callable[[Modifiers], Operation]:
    def row(modifiers: Modifiers) -> Operation:
        *rest, dtype = modifiers
        _require_rounded(rest)
        return Operation((dtype,), function, dtype)

    return row


def _require_rounded(rest: list[str]) -> None:
    if rest != ["rn"]:
        raise ValueError(rest)


def _extreme(of_numbers: Callable[..., Array], of_zeros: Callable[..., Array]) -> Any:
    """Return the row of min or max: of a number and NaN, the number; +0 is more than -0."""

    def of_floats(a: Array, b: Array) -> Array:
        found = of_numbers(a, b)
        bits = f"u{found.dtype.itemsize}"
        zeros = of_zeros(a.view(bits), b.view(bits)).view(found.dtype)
        return np.where((a == 0) & (b == 0), zeros, found)

    def row(modifiers: Modifiers) -> Operation:
        (dtype,) = modifiers
        return Operation((dtype, dtype), of_floats if _is_float(dtype) else of_numbers, dtype)

    return row


# Bits


def _shift(left: bool) -> Callable[[Modifiers], Operation]:
    """Return the row of shl or shr: an amount past the width is as the width."""

    def row(modifiers: Modifiers) -> Operation:
        (dtype,) = modifiers
        width = 8 * DTYPES[dtype].itemsize

        def shifted(a: Array, amount: Array) -> Array:
            most = width if a.dtype.kind == "u" else width - 1  # the sign is what is left
            amount = np.minimum(amount, most)
            part = np.minimum(amount, width - 1).astype(a.dtype)
            found = a << part if left else a >> part
            return np.where(amount == width, a.dtype.type(0), found)

        return Operation((dtype, "u32"), shifted, dtype)

    return row


def _funnel(modifiers: Modifiers) -> Operation:
    direction, mode, dtype = modifiers
    if dtype != "b32" or mode not in ("wrap", "clamp"):
        raise ValueError(modifiers)

    def shifted(a: Array, b: Array, amount: Array) -> Array:
        both = a.astype(np.uint64) | (b.astype(np.uint64) << np.uint64(32))
        count = (amount & 31 if mode == "wrap" else np.minimum(amount, 32)).astype(np.uint64)
        found = (both << count) >> np.uint64(32) if direction == "l" else both >> count
        return found.astype(np.uint32)

    return Operation(("b32", "b32", "u32"), shifted, "b32")


def permute(a: Array, b: Array, selector: Array) -> Array:
    """Return four of the eight bytes of a and b, or their signs, as four nibbles select."""
    bytes_ = a.astype(np.uint64) | (b.astype(np.uint64) << np.uint64(32))
    result = np.uint32(0)
    for place in range(4):
        nibble = (selector >> np.uint32(4 * place)) & np.uint32(15)
        byte = (bytes_ >> ((nibble & np.uint32(7)) * np.uint32(8)).astype(np.uint64)) & np.uint64(
            255
        )
        byte = byte.astype(np.uint32)
        sign = np.where(byte & np.uint32(128), np.uint32(255), np.uint32(0))
        byte = np.where(nibble & np.uint32(8), sign, byte)
        result = result | (byte << np.uint32(8 * place))
    return result


def _permute(modifiers: Modifiers) -> Operation:
    if modifiers != ("b32",):
        raise ValueError(modifiers)
    return Operation(("b32", "b32", "b32"), permute, "b32")


def _field(modifiers: Modifiers) -> Operation:
    """Return bfe: ``length`` bits from ``start`` on, extended by their sign if the type has one."""
    (dtype,) = modifiers
    if dtype not in ("u32", "s32", "u64", "s64"):
        raise ValueError(modifiers)
    kind, bits = DTYPES[dtype].type, 8 * DTYPES[dtype].itemsize

    def extracted(a: Array, start: Array, length: Array) -> Array:
        first, count = (np.minimum(part & 255, bits).astype(np.int64) for part in (start, length))
        left = np.maximum(bits - first - count, 0)  # brings the field to the top, if all is inside
        right = left + first
        if dtype[0] == "u":
            a = np.where(first < bits, a, kind(0))
        moved = (a << _below(left, bits, kind)) >> _below(right, bits, kind)
        return np.where(count == 0, kind(0), moved)

    return Operation((dtype, "u32", "u32"), extracted, dtype)


def _below(amount: Array, bits: int, kind: type[np.integer]) -> Array:
    """Return amounts that NumPy shifts by."""
    return np.minimum(amount, bits - 1).astype(kind)


def _insert(modifiers: Modifiers) -> Operation:
    """Return bfi: b, in it the low ``length`` bits of a from ``start`` on."""
    if modifiers != ("b32",):
        raise ValueError(modifiers)

    def inserted(a: Array, b: Array, start: Array, length: Array) -> Array:
        start, length = np.minimum(start & 255, 32), np.minimum(length & 255, 32)
        ones = (np.uint64(1) << length.astype(np.uint64)) - np.uint64(1)
        mask = ones << start.astype(np.uint64)
        moved = (a.astype(np.uint64) << start.astype(np.uint64)) & mask
        return ((b.astype(np.uint64) & ~mask) | moved).astype(np.uint32)

    return Operation(("b32", "b32", "u32", "u32"), inserted, "b32")


def _logic(modifiers: Modifiers) -> Operation:
    """Return lop3: for each bit, the bit of the table that three bits number."""
    if modifiers != ("b32",):
        raise ValueError(modifiers)

    def looked_up(a: Array, b: Array, c: Array, table: Array) -> Array:
        result = np.uint32(0)
        for row in range(8):
            chosen = np.uint32(0) - (table >> np.uint32(row) & np.uint32(1))
            terms = [x if row >> (2 - i) & 1 else ~x for i, x in enumerate((a, b, c))]
            result = result | (chosen & terms[0] & terms[1] & terms[2])
        return result

    return Operation(("b32",) * 4, looked_up, "b32")


def _not(modifiers: Modifiers) -> Operation:
    (dtype,) = modifiers
    return Operation((dtype,), np.logical_not if dtype == "pred" else np.invert, dtype)


def _copy_sign(modifiers: Modifiers) -> Operation:
    """Return copysign: the sign of the first operand and the rest of the second."""
    (dtype,) = modifiers
    return Operation((dtype, dtype), lambda a, b: np.copysign(b, a), dtype)


# Products of bytes


def bytes_of(word: Array) -> Array:
    """Return the four bytes of words as int32, the lowest first; signed if the words are."""
    kind = np.int8 if word.dtype.kind == "i" else np.uint8
    return np.atleast_1d(np.ascontiguousarray(word)).view(kind).reshape(-1, 4).astype(np.int32)


def dot_of_bytes(a: Array, b: Array, c: Array) -> Array:
    """Return dp4a: c and four products of bytes, modulo 2^32."""
    return c + np.einsum("ij,ij->i", *np.broadcast_arrays(bytes_of(a), bytes_of(b))).astype(c.dtype)


def _dp4a(modifiers: Modifiers) -> Operation:
    a, b = modifiers
    result = _sum_type(a, b)
    return Operation((a, b, result), dot_of_bytes, result)


def _sum_type(a: str, b: str) -> str:
    if {a, b} - {"u32", "s32"}:
        raise ValueError(a, b)
    return "u32" if (a, b) == ("u32", "u32") else "s32"


def _dp2a(modifiers: Modifiers) -> Operation:
    half, a, b = modifiers
    result, first = _sum_type(a, b), {"lo": 0, "hi": 2}[half]

    def dot(x: Array, y: Array, c: Array) -> Array:
        kind = np.int16 if x.dtype.kind == "i" else np.uint16
        halves = np.atleast_1d(np.ascontiguousarray(x)).view(kind).reshape(-1, 2).astype(np.int64)
        products = halves * bytes_of(y)[:, first : first + 2]
        return c + products.sum(1).astype(c.dtype)

    return Operation((a, b, result), dot, result)


# Comparisons

COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
JOINED = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _set_predicate(modifiers: Modifiers) -> Operation:
    name, *joins, dtype = modifiers
    compare = _comparison(name, dtype)
    if not joins:
        return Operation((dtype, dtype), compare, "pred")
    join = JOINED["".join(joins)]
    return Operation((dtype, dtype, "pred"), lambda a, b, p: join(compare(a, b), p), "pred")


def _comparison(name: str, dtype: str) -> Callable[[Array, Array], Array]:
    """Return a comparison; of floats, those with a "u" are true also where one is no number."""
    if not _is_float(dtype):
        return COMPARISONS[name]
    if name in ("num", "nan"):
        return lambda a, b: (np.isnan(a) | np.isnan(b)) == (name == "nan")
    if name.endswith("u") and name[:-1] in COMPARISONS:
        ordered = COMPARISONS[name[:-1]]
        return lambda a, b: ordered(a, b) | np.isnan(a) | np.isnan(b)
    if name == "ne":  # ordered: NumPy's is true of what is no number
        return lambda a, b: (a < b) | (a > b)
    return COMPARISONS[name]


def _select(modifiers: Modifiers) -> Operation:
    (dtype,) = modifiers
    return Operation((dtype, dtype, "pred"), lambda a, b, p: np.where(p, a, b), dtype)


# Conversions

TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _convert(modifiers: Modifiers) -> Operation:
    *rest, to, source = modifiers
    dtype = DTYPES[to]
    saturates = "sat" in rest
    rounding = [item for item in rest if item != "sat"]
    if _is_float(source) and not _is_float(to):
        (name,) = rounding
        return Operation((source,), _to_integer(TO_INTEGER[name], dtype), to)
    if _is_float(source):
        return Operation((source,), _to_float(rounding, source, to, saturates), to)
    if _is_float(to):
        _require_rounded(rounding)
        return Operation((source,), lambda a: a.astype(dtype), to)
    _known(tuple(rounding))
    if saturates:
        info = np.iinfo(dtype)
        return Operation((source,), lambda a: _clipped(a, info).astype(dtype), to)
    return Operation((source,), lambda a: a.astype(dtype), to)


def _clipped(a: Array, info: np.iinfo) -> Array:
    own = np.iinfo(a.dtype)
    return np.clip(a, max(info.min, own.min), min(info.max, own.max))


def _to_integer(rounded: Callable[[Array], Array], dtype: np.dtype) -> Callable[[Array], Array]:
    """Return the conversion of floats, which clamps; what is no number becomes zero."""
    info = np.iinfo(dtype)

    def converted(a: Array) -> Array:
        whole = rounded(np.float64(a))
        low, high = float(info.min), float(info.max)  # of 64 bits, the high one is 2^63 or 2^64
        inside = np.where((whole >= low) & (whole < high), whole, 0).astype(dtype)
        found = np.where(whole >= high, info.max, np.where(whole < low, info.min, inside))
        return np.where(np.isnan(whole), 0, found).astype(dtype)

    return converted


def _to_float(
    rounding: list[str], source: str, to: str, saturates: bool
) -> Callable[[Array], Array]:
    dtype = DTYPES[to]
    narrows = dtype.itemsize < DTYPES[source].itemsize
    whole = TO_INTEGER.get("".join(rounding))
    if not whole and rounding != (["rn"] if narrows else []):
        raise ValueError(rounding)

    def converted(a: Array) -> Array:
        found = (whole(a) if whole else a).astype(dtype)
        if saturates:
            found = np.where(np.isnan(found), 0, np.clip(found, 0, 1)).astype(dtype)
        return found

    return converted


def _population(modifiers: Modifiers) -> Operation:
    (dtype,) = modifiers
    return Operation((dtype,), lambda a: np.bitwise_count(a).astype(np.uint32), "u32")


OPERATIONS: dict[str, Callable[[Modifiers], Operation]] = {
    "mov": _same(lambda a: a, 1),
    "add": _same(np.add, 2),
    "sub": _same(np.subtract, 2),
    "neg": _same(np.negative, 1),
    "abs": _same(np.abs, 1),
    "mul": _mul,
    "mad": _mad,
    "fma": _fma,
    "div": _divide,
    "rem": _same(np.fmod, 2),
    "sqrt": _rounded_unary(np.sqrt),
    "rcp": _rounded_unary(np.reciprocal),
    "min": _extreme(np.fmin, np.bitwise_or),
    "max": _extreme(np.fmax, np.bitwise_and),
    "and": _same(np.bitwise_and, 2),
    "or": _same(np.bitwise_or, 2),
    "xor": _same(np.bitwise_xor, 2),
    "not": _not,
    "shl": _shift(left=True),
    "shr": _shift(left=False),
    "shf": _funnel,
    "prmt": _permute,
    "bfe": _field,
    "bfi": _insert,
    "lop3": _logic,
    "copysign": _copy_sign,
    "popc": _population,
    "dp4a": _dp4a,
    "dp2a": _dp2a,
    "setp": _set_predicate,
    "selp": _select,
    "cvt": _convert,
}
