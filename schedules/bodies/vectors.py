"""Expressions on one lane or a vector of lanes: types, constants, conversions, fma, rounding."""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr


def vector(dtype: str, count: int) -> str:
    """Return the type of ``count`` lanes of ``dtype``: "float32x16", of one lane "float32"."""
    return dtype if count == 1 else f"{dtype}x{count}"


def lanes(value: Expr) -> int:
    """Return how many lanes ``value`` has."""
    return int(value.ty.dtype.lanes)


def broadcast(value: Expr, count: int) -> Expr:
    """Return the scalar ``value`` in ``count`` lanes."""
    return value if count == 1 else tirx.Broadcast(value, count)


def splat(value: float, dtype: str, count: int) -> Expr:
    """Return the constant ``value`` in ``count`` lanes of ``dtype``."""
    return broadcast(tirx.const(value, dtype), count)


def cast(value: Expr, dtype: str) -> Expr:
    """Convert each lane of ``value``."""
    return tirx.Cast(vector(dtype, lanes(value)), value)


def fma(a: Expr, b: Expr, c: Expr) -> Expr:
    """Return a * b + c of float32, rounded once."""
    return tirx.call_llvm_pure_intrin(str(c.ty.dtype), "llvm.fma", a, b, c)


def rint(x: Expr) -> Expr:
    """Return float lanes as int32, half to even; those below int32 become the smallest int32.

    One instruction on x86 and Arm. LLVM promises nothing for what is out of range, but these and
    RISC-V saturate below, and above nothing is left.
    """
    return tirx.call_llvm_pure_intrin(vector("int32", lanes(x)), "llvm.lrint", x)


def f32(value: float) -> Expr:
    """Return the float32 constant ``value``, of one lane."""
    return tirx.const(value, "float32")
