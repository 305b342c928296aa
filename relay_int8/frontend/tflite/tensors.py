"""A TFLite tensor in Relax: in the file's order or in NCHW, its integers between Q/DQ pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from tvm import relax

from relay_int8.frontend.tflite.model import Quantization, TfliteTensor
from relay_int8.frontend.tflite.tables import Array

TO_NCHW = (0, 3, 1, 2)
TO_NHWC = (0, 2, 3, 1)
QUANTIZED = ("int8", "uint8")


@dataclass(frozen=True)
class Image:
    """A result of four dimensions in NCHW."""

    value: relax.Expr


@dataclass(frozen=True)
class Parts:
    """A complex result: its real and its imaginary part."""

    real: relax.Expr
    imaginary: relax.Expr


Result: TypeAlias = "relax.Expr | Image | Parts"


@dataclass
class Held:
    """A tensor in Relax: as the file has it, in NCHW, or both; its integers, if it has such.

    ``is_image`` says that it was computed in NCHW. Of a complex tensor it is the real part.
    """

    plain: relax.Expr | None = None
    image: relax.Expr | None = None
    integers: Result | None = None
    is_image: bool = False
    imaginary: relax.Expr | None = None

    @classmethod
    def of(cls, result: Result, integers: Result | None = None) -> Held:
        """Return a tensor in the order of ``result``."""
        if isinstance(result, Image):
            return cls(image=result.value, integers=integers, is_image=True)
        return cls(plain=result, integers=integers)


def axis_of(axis: int, rank: int) -> int:
    """Return an axis counted from the front."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} of an operand with {rank} axes")
    return axis % rank


def quantization_of(tensor: TfliteTensor) -> Quantization | None:
    """Return what the integers of a tensor stand for, or None if they are no real numbers."""
    return tensor.quantization if tensor.dtype in QUANTIZED else None


def have_one_scale(a: TfliteTensor, b: TfliteTensor) -> bool:
    """Whether two tensors are floats, or integers of one scale and zero point."""
    p, q = a.quantization, b.quantization
    if p is None or q is None:
        return p is q
    return np.array_equal(p.scale, q.scale) and np.array_equal(p.zero, q.zero)


def quantize(value: relax.Expr, tensor: TfliteTensor) -> relax.Call:
    """Return ``value`` as the integers of a quantized tensor."""
    return relax.op.quantize(value, *_parameters(tensor), 0, tensor.dtype)


def dequantize(integers: relax.Expr, tensor: TfliteTensor, axis: int = 0) -> relax.Call:
    """Return what the integers of a quantized tensor stand for; its scales are along ``axis``."""
    return relax.op.dequantize(integers, *_parameters(tensor), axis)


def _parameters(tensor: TfliteTensor) -> tuple[relax.Expr, relax.Expr]:
    """Return scale and zero point as Q and DQ take them: scalars, where they are of one tensor."""
    assert tensor.quantization is not None
    scale, zero = tensor.quantization.scale, tensor.quantization.zero
    dims = () if scale.size == 1 else scale.shape
    return (
        relax.const(np.array(scale.reshape(dims), np.float32)),
        relax.const(np.array(zero.reshape(dims), tensor.dtype)),
    )


def ordered(values: Array, lead: int, order: Sequence[int]) -> Array:
    """Return a constant with leading axes of 1, transposed, in this computer's bytes."""
    moved = values.reshape((1,) * lead + values.shape).transpose(order)
    return np.array(moved, values.dtype.newbyteorder("="), order="C")
