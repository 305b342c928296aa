"""Conversions between types, as PTX has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.cuda.ptx.operation import Array, Modifiers, Operation, is_float, require_known
from tests.cuda.ptx.sums import require_rounded
from tests.cuda.ptx.types import DTYPES

TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def convert(modifiers: Modifiers) -> Operation:
    *rest, to, source = modifiers
    dtype = DTYPES[to]
    saturates = "sat" in rest
    rounding = [item for item in rest if item != "sat"]
    if is_float(source) and not is_float(to):
        (name,) = rounding
        return Operation((source,), _to_integer(TO_INTEGER[name], dtype), to)
    if is_float(source):
        return Operation((source,), _to_float(rounding, source, to, saturates), to)
    if is_float(to):
        require_rounded(rounding)
        return Operation((source,), lambda a: a.astype(dtype), to)
    require_known(tuple(rounding))
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
