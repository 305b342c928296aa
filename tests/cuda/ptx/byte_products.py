"""Products of bytes, as PTX has them: dp4a and dp2a."""

from __future__ import annotations

import numpy as np

from tests.cuda.ptx.operation import Array, Modifiers, Operation


def bytes_of(word: Array) -> Array:
    """Return the four bytes of words as int32, the lowest first; signed if the words are."""
    kind = np.int8 if word.dtype.kind == "i" else np.uint8
    return np.atleast_1d(np.ascontiguousarray(word)).view(kind).reshape(-1, 4).astype(np.int32)


def dot_of_bytes(a: Array, b: Array, c: Array) -> Array:
    """Return dp4a: c and four products of bytes, modulo 2^32."""
    return c + np.einsum("ij,ij->i", *np.broadcast_arrays(bytes_of(a), bytes_of(b))).astype(c.dtype)


def dp4a(modifiers: Modifiers) -> Operation:
    a, b = modifiers
    result = _sum_type(a, b)
    return Operation((a, b, result), dot_of_bytes, result)


def _sum_type(a: str, b: str) -> str:
    if {a, b} - {"u32", "s32"}:
        raise ValueError(a, b)
    return "u32" if (a, b) == ("u32", "u32") else "s32"


def dp2a(modifiers: Modifiers) -> Operation:
    half, a, b = modifiers
    result, first = _sum_type(a, b), {"lo": 0, "hi": 2}[half]

    def dot(x: Array, y: Array, c: Array) -> Array:
        kind = np.int16 if x.dtype.kind == "i" else np.uint16
        halves = np.atleast_1d(np.ascontiguousarray(x)).view(kind).reshape(-1, 2).astype(np.int64)
        products = halves * bytes_of(y)[:, first : first + 2]
        return c + products.sum(1).astype(c.dtype)

    return Operation((a, b, result), dot, result)
