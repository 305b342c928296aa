"""Shifts, permutations, fields and logic of bits, as PTX has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.cuda.ptx.operation import Array, Modifiers, Operation
from tests.cuda.ptx.types import DTYPES


def shift(left: bool) -> Callable[[Modifiers], Operation]:
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


def funnel(modifiers: Modifiers) -> Operation:
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


def permute_bytes(modifiers: Modifiers) -> Operation:
    if modifiers != ("b32",):
        raise ValueError(modifiers)
    return Operation(("b32", "b32", "b32"), permute, "b32")


def field(modifiers: Modifiers) -> Operation:
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


def insert(modifiers: Modifiers) -> Operation:
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


def logic(modifiers: Modifiers) -> Operation:
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


def invert(modifiers: Modifiers) -> Operation:
    (dtype,) = modifiers
    return Operation((dtype,), np.logical_not if dtype == "pred" else np.invert, dtype)


def copy_sign(modifiers: Modifiers) -> Operation:
    """Return copysign: the sign of the first operand and the rest of the second."""
    (dtype,) = modifiers
    return Operation((dtype, dtype), lambda a, b: np.copysign(b, a), dtype)


def population(modifiers: Modifiers) -> Operation:
    (dtype,) = modifiers
    return Operation((dtype,), lambda a: np.bitwise_count(a).astype(np.uint32), "u32")
