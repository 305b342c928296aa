"""Multiply int8 as uint8 or the reverse: values and their zero point are shifted by 128.

Instructions multiply weights, or what is packed like them, as int8, the other operand as ``dot``
has it.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies.vectors import splat, vector
from schedules.cpu.dot import Dot

SIGN = 128


def row_type(dot: Dot) -> str:
    """Return the type of the rows that ``dot`` multiplies, the one it likes if it takes several."""
    return dot.x_types[0]


def moved(value: Expr, dtype: str) -> Expr:
    """Return integer lanes as ``dtype``, those of the other sign moved by 128; floats as is."""
    count = int(value.ty.dtype.lanes)
    lane_type = str(value.ty.dtype.with_lanes(1)) if count > 1 else str(value.ty.dtype)
    if lane_type == dtype:
        return value
    flipped = tirx.reinterpret(vector("uint8", count), value) ^ splat(SIGN, "uint8", count)
    return tirx.reinterpret(vector(dtype, count), flipped)


def moved_zero(z: Expr, dtype: str, wanted: str) -> Expr:
    """Return the zero point of a tensor of ``dtype`` that is multiplied as ``wanted``."""
    if dtype == wanted:
        return z
    return z + tirx.const(SIGN if wanted == "uint8" else -SIGN, "int32")
