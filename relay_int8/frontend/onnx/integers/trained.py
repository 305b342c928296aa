"""Quantizers of networks that were trained with them, as QONNX and Brevitas write them.

    Before:  Quant(x, scale, zero, bits), Quant(w, scales, zero, bits) with constant weights w
    After:   dequantize(quantize(clip(x))), dequantize(integers of w)

A pair has integers of 8 bits; of fewer bits the clip leaves as many as there are. What no pair can
say (more bits, several scales for a tensor that is computed, another rounding) is computed in
float.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.frontend.onnx.operators.converter import Converter
from relay_int8.frontend.onnx.operators.operands import Array, known_array
from relay_int8.graph.dataflow import constant, shape

Attributes = dict[str, Any]
DOMAINS = ("finn.custom_op.general", "onnx.brevitas", "qonnx.custom_op.general")
TO_EVEN = ("ROUND", "HALF_EVEN")
ROUNDINGS: dict[str, tuple[Callable[[relax.Expr], relax.Expr], Callable[[Array], Array]]] = {
    **dict.fromkeys(TO_EVEN, (relax.op.round, np.rint)),
    "CEIL": (relax.op.ceil, np.ceil),
    "FLOOR": (relax.op.floor, np.floor),
    "ROUND_TO_ZERO": (relax.op.trunc, np.trunc),
}
"""Rounding mode -> what rounds a tensor that is computed, and a constant."""


@dataclass(frozen=True)
class Quantizer:
    """``(round(clip(x / scale + zero, low, high)) - zero) * scale``.

    Scale and zero point are float32 and broadcast to the tensor.
    """

    scale: Array
    zero: Array
    low: int
    high: int
    rounding: str = "ROUND"

    @property
    def pair_type(self) -> str | None:
        """Return the type of integers that a Q/DQ pair has for it, or None."""
        if self.rounding not in TO_EVEN or (self.zero != np.rint(self.zero)).any():
            return None
        values = [self.low, self.high, int(self.zero.min()), int(self.zero.max())]
        for kind in ("int8", "uint8"):
            info = np.iinfo(kind)
            if info.min <= min(values) and max(values) <= info.max:
                return kind
        return None

    def axis(self, rank: int) -> int | None:
        """Return the axis that has the scales; 0 of a single one, None if there are several."""
        along = {
            axis - array.ndim + rank
            for array in (self.scale, self.zero)
            for axis in range(array.ndim)
            if array.shape[axis] > 1
        }
        return None if len(along) > 1 else along.pop() if along else 0

    def of(self, bb: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        """Return what it makes of a tensor."""
        known, kind, axis = constant(x), self.pair_type, self.axis(len(shape(x)))
        if known is not None and kind and axis is not None:
            return self._pair(relax.const(self._integers(known).astype(kind)), kind, axis)
        if known is not None:
            return relax.const((self._integers(known) - self.zero) * self.scale)
        if kind is None or self.scale.size * self.zero.size > 1:
            return self._in_float(bb, x)
        info = np.iinfo(kind)
        if (self.low, self.high) != (info.min, info.max):
            zero, scale = self.zero.item(), self.scale.item()
            low, high = ((bound - zero) * scale for bound in (self.low, self.high))
            x = bb.emit(relax.op.clip(x, relax.prim_value(low), relax.prim_value(high)))
        scale, zero = self._parameters(kind)
        return self._pair(bb.emit(relax.op.quantize(x, scale, zero, 0, kind)), kind, 0)

    def _integers(self, values: Array) -> Array:
        steps = np.clip(values / self.scale + self.zero, self.low, self.high)
        return ROUNDINGS[self.rounding][1](steps).astype(np.float32)

    def _pair(self, integers: relax.Expr, kind: str, axis: int) -> relax.Expr:
        return relax.op.dequantize(integers, *self._parameters(kind), axis)

    def _parameters(self, kind: str) -> tuple[relax.Expr, relax.Expr]:
        count = max(self.scale.size, self.zero.size)
        dims = () if count == 1 else (count,)
        scale, zero = (
            np.broadcast_to(array.reshape(-1), (count,)).reshape(dims)
            for array in (self.scale, self.zero)
        )
        return relax.const(scale.astype(np.float32)), relax.const(zero.astype(kind))

    def _in_float(self, bb: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        scale, zero = relax.const(self.scale), relax.const(self.zero)
        x = bb.emit(relax.op.add(bb.emit(relax.op.divide(x, scale)), zero))
        bounds = (relax.prim_value(float(bound)) for bound in (self.low, self.high))
        x = bb.emit(ROUNDINGS[self.rounding][0](bb.emit(relax.op.clip(x, *bounds))))
        return relax.op.multiply(bb.emit(relax.op.subtract(x, zero)), scale)


def _quant(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    x, scale, zero, bits = inputs
    is_signed, is_narrow = (bool(attributes.get(name, 0)) for name in ("signed", "narrow"))
    width = _bits(bits)
    low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if is_signed else (0, 2**width - 1)
    quantizer = Quantizer(
        scale=_positive(scale),
        zero=known_array(zero, "its zero point is").astype(np.float32),
        low=low + (is_narrow and is_signed),
        high=high - (is_narrow and not is_signed),
        rounding=_rounding(attributes, "ROUND"),
    )
    return quantizer.of(bb, x)


def _bipolar(bb: relax.BlockBuilder, inputs: list[Any], _: Attributes) -> relax.Expr:
    """Return the scale where x is not negative, else minus the scale."""
    x, scale = inputs
    quantizer = Quantizer(_positive(scale), np.zeros((), np.float32), -1, 1)
    if (known := constant(x)) is not None:
        signs = np.where(known >= 0, quantizer.scale, -quantizer.scale)
        return quantizer.of(bb, relax.const(signs.astype(np.float32)))
    is_positive = bb.emit(relax.op.greater_equal(x, relax.const(np.float32(0))))
    plus, minus = (relax.const(values) for values in (quantizer.scale, -quantizer.scale))
    return quantizer.of(bb, bb.emit(relax.op.where(is_positive, plus, minus)))


def _truncated(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Leave out the lowest bits of integers, as a sum of pixels becomes their mean."""
    if len(inputs) != 5:
        raise NotImplementedError(f"it has {len(inputs)} inputs; 5 are read")
    x, scale, zero, before, after = inputs
    s, z = _positive(scale), known_array(zero, "its zero point is").astype(np.float32)
    divisor = np.float32(2.0 ** (_bits(before) - _bits(after)))
    x = bb.emit(relax.op.add(bb.emit(relax.op.divide(x, relax.const(s))), relax.const(z)))
    x = bb.emit(relax.op.divide(bb.emit(relax.op.round(x)), relax.const(divisor)))
    x = bb.emit(ROUNDINGS[_rounding(attributes, "FLOOR")][0](x))
    return relax.op.multiply(bb.emit(relax.op.subtract(x, relax.const(z))), relax.const(s))


def _positive(scale: Any) -> Array:
    array = known_array(scale, "its scale is").astype(np.float32)
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError("its scale is not positive and finite")
    return array


def _bits(value: Any) -> int:
    bits = known_array(value, "its number of bits is")
    if bits.size != 1 or not 1 <= (width := bits.item()) <= 32 or width != int(width):
        raise NotImplementedError(f"numbers of bits {bits.reshape(-1)[:4].tolist()}")
    return int(width)


def _rounding(attributes: Attributes, default: str) -> str:
    given = attributes.get("rounding_mode", default)
    name = (given.decode() if isinstance(given, bytes) else str(given)).upper()
    if name not in ROUNDINGS:
        raise NotImplementedError(f"its rounding mode is {name}")
    return name


TRAINED: dict[str, Converter] = {
    "BipolarQuant": _bipolar,
    "IntQuant": _quant,
    "Quant": _quant,
    "Trunc": _truncated,
}
"""Operators of QONNX and Brevitas."""
