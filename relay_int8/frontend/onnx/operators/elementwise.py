"""ONNX's elementwise operators that TVM's importer reads differently at the edges of their domain.

Infinities in IsInf and Mod, shifts by no number of bits in BitShift, integers in Pow and Shrink.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from relay_int8.graph.dataflow import constant, dtype, shape

Attributes = dict[str, Any]


def is_inf(_: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Whether elements are infinite: of both signs, or of the one that is asked for."""
    x = inputs[0]
    positive, negative = (attributes.get(f"detect_{sign}", 1) for sign in ("positive", "negative"))
    if positive and negative:
        return relax.op.isinf(x)
    if not positive and not negative:
        raise NotImplementedError("it detects infinities of neither sign")
    return relax.op.equal(x, relax.const(np.inf if positive else -np.inf, dtype(x)))


def erfc(bb: relax.BlockBuilder, inputs: list[Any], _: Attributes) -> relax.Expr:
    """``1 - erf(x)``, which Keras and tf2onnx write in GELU; the standard lacks it."""
    x = inputs[0]
    return relax.op.subtract(relax.const(1.0, dtype(x)), bb.emit(relax.op.erf(x)))


def shrink(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """``x + bias`` below ``-lambd``, else ``x - bias`` above ``lambd``, else 0.

    Integers are shrunk as floats, whose fractions are cut off.
    """
    (x,) = inputs
    kind = dtype(x)
    if not kind.startswith("float"):
        x = bb.emit(relax.op.astype(x, "float32"))
    lambd, bias = (
        relax.const(attributes.get(name, default), dtype(x))
        for name, default in (("lambd", 0.5), ("bias", 0.0))
    )
    is_above = bb.emit(relax.op.greater(x, lambd))
    is_below = bb.emit(relax.op.less(x, bb.emit(relax.op.negative(lambd))))
    lower = bb.emit(relax.op.subtract(x, bias))
    y = bb.emit(relax.op.where(is_above, lower, relax.const(0.0, dtype(x))))
    y = bb.emit(relax.op.where(is_below, bb.emit(relax.op.add(x, bias)), y))
    return y if dtype(y) == kind else relax.op.astype(y, kind)


def mod(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Remainder with the sign of the dividend (``fmod``) or of the divisor, as NumPy has both.

    TVM's floor_mod of floats is ``a - floor(a / b) * b``: NaN where b is infinite.
    """
    a, b = inputs
    if attributes.get("fmod", 0):
        return relax.op.mod(a, b)
    if not dtype(a).startswith("float"):
        return relax.op.floor_mod(a, b)
    zero = relax.const(0.0, dtype(a))
    rest = bb.emit(relax.op.mod(a, b))
    signs = bb.emit(relax.op.less(rest, zero)), bb.emit(relax.op.less(b, zero))
    differ = bb.emit(relax.op.logical_xor(*signs))
    moved = bb.emit(relax.op.logical_and(differ, bb.emit(relax.op.not_equal(rest, zero))))
    return relax.op.where(moved, bb.emit(relax.op.add(rest, b)), rest)


def bit_shift(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Shift by any number: by a negative one, or the width or more, all bits fall out.

    Signed integers shifted right leave their sign then, others 0. LLVM does not define such shifts.
    """
    x, by = inputs
    is_left = attributes["direction"] == b"LEFT"
    shift = relax.op.left_shift if is_left else relax.op.right_shift
    kind, width = np.dtype(dtype(x)), 8 * np.dtype(dtype(x)).itemsize
    amounts = constant(by)
    if amounts is not None and ((amounts >= 0) & (amounts < width)).all():
        return shift(x, by)
    bound, zero = relax.const(width, dtype(by)), relax.const(0, dtype(by))
    is_inside = bb.emit(relax.op.less(by, bound))
    if kind.kind == "i":
        not_below = bb.emit(relax.op.greater_equal(by, zero))
        is_inside = bb.emit(relax.op.logical_and(is_inside, not_below))
    shifted = bb.emit(shift(x, bb.emit(relax.op.where(is_inside, by, zero))))
    if is_left or kind.kind == "u":
        outside: relax.Expr = relax.const(0, dtype(x))
    else:
        outside = bb.emit(relax.op.right_shift(x, relax.const(width - 1, dtype(x))))
    return relax.op.where(is_inside, shifted, outside)


def power(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Raise to a power, in the type of the base.

    Integers need constant exponents: they are squared as often as the exponents have bits, so that
    results are exact and wrap around as multiplications do. TVM's power is of floats alone.
    """
    x, y = inputs
    if dtype(x).startswith("float"):
        if dtype(y) != dtype(x):
            exponents = constant(y)
            y = (
                bb.emit(relax.op.astype(y, dtype(x)))
                if exponents is None
                else relax.const(exponents.astype(dtype(x)), dtype(x))
            )
        return onnx_frontend.Pow._impl_v7(bb, [x, y], attributes, [{}, {}])
    exponents = constant(y)
    if exponents is None:
        raise NotImplementedError(f"{dtype(x)} to a power that is computed; cast the base to float")
    whole = exponents.astype("int64")
    if (whole != exponents).any() or (whole < 0).any():
        raise NotImplementedError(
            f"{dtype(x)} to the power of {exponents.tolist()}; whole numbers from 0 on are read"
        )
    one = relax.const(1, dtype(x))
    result = bb.emit(relax.op.broadcast_to(one, np.broadcast_shapes(shape(x), whole.shape)))
    for bit in range(int(whole.max(initial=0)).bit_length()):
        x = x if bit == 0 else bb.emit(relax.op.multiply(x, x))
        is_set = relax.const(whole >> bit & 1 != 0, "bool")
        result = bb.emit(relax.op.multiply(result, bb.emit(relax.op.where(is_set, x, one))))
    return result
