"""PTX types as those of NumPy, and how a value of one type is read as, or widened to, another."""

from __future__ import annotations

import struct

import numpy as np

from tests.cuda.ptx.errors import UnknownPtxError

DTYPES = {
    "pred": np.dtype(bool),
    **{f"{kind}{bits}": np.dtype(f"u{bits // 8}") for kind in "bu" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"f{bits}": np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)},
}


def immediate(text: str, name: str) -> np.generic | None:
    """Return the constant that ``text`` writes, as type ``name``; None if it is none."""
    if text[:2] in ("0f", "0F"):
        return _as_type(struct.unpack(">f", bytes.fromhex(text[2:]))[0], name)
    if text[:2] in ("0d", "0D"):
        return _as_type(struct.unpack(">d", bytes.fromhex(text[2:]))[0], name)
    try:
        value = int(text.rstrip("U"), 0)
    except ValueError:
        return None
    return _as_type(value, name)


def _as_type(value: float | int, name: str) -> np.generic:
    dtype = DTYPES[name]
    if dtype.kind in "ui" and isinstance(value, int):
        unsigned = np.dtype(f"u{dtype.itemsize}").type(value & ((1 << 8 * dtype.itemsize) - 1))
        return unsigned.view(dtype)
    return dtype.type(value)


def read_as(value: np.ndarray, name: str) -> np.ndarray:
    """Return the lowest bits of a register as type ``name``."""
    dtype = DTYPES[name]
    if value.dtype == dtype:
        return value
    if value.dtype.itemsize < dtype.itemsize or (value.dtype.kind == "b") != (dtype.kind == "b"):
        raise UnknownPtxError(f"a register of {value.dtype} is read as {name}")
    if value.dtype.itemsize > dtype.itemsize:
        value = value.astype(f"u{dtype.itemsize}")
    return value.view(dtype)


def widened(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return a result as a register of ``dtype`` holds it: extended by its sign if it has one."""
    if value.dtype == dtype:
        return value
    if value.dtype.itemsize > dtype.itemsize or (value.dtype.kind == "b") != (dtype.kind == "b"):
        raise UnknownPtxError(f"a register of {dtype} is to hold {value.dtype}")
    if value.dtype.itemsize < dtype.itemsize:
        kind = "i" if value.dtype.kind == "i" else "u"
        unsigned = value.view(f"{kind}{value.dtype.itemsize}")
        value = unsigned.astype(f"{kind}{dtype.itemsize}")
    return value.view(dtype)
