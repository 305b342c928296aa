"""Instructions of the GPU's contraction kernels: how one step adds products to a sum.

dp4a: ``d = c + a0 * b0 + a1 * b1 + a2 * b2 + a3 * b3`` of bytes in int32, wrapping, in place; sm_61
and newer. ``__dp4a`` is overloaded by the sign of a: s8 x s8 is CUDA's own, u8 x s8 (PTX
``dp4a.u32.s32``) is in TVM's preamble and in ours.

Half products: x is rounded to float16 as it is staged, and staged as the float32 of the same value;
w lies in memory as the bits of float16 (CUDA C knows the type by a header of the toolkit alone),
and is widened in registers. A product of two float16 is exact in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.spec import Conv2d, Dense

LANES = 4
Load = Callable[[Any, Any, Any], Expr]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One way to add products of four neighbouring channels of x and w.

    Parameters
    ----------
    word
        Type of the elements that x is staged as.
    words
        How many of them hold four channels.
    load
        ``(buffer, index, i)`` -> word i of the four channels of x that start at ``index``.
    load_w
        The same of w.
    fill
        ``z`` -> the word whose channels are all the zero point.
    step
        ``(acc, x, w)`` -> acc plus the products of a word.
    acc
        Type of the sums.
    w
        Type of w in memory.
    """

    word: str
    words: int
    load: Load
    load_w: Load
    fill: Callable[[Expr], Expr]
    step: Callable[[Expr, Expr, Expr], Expr]
    acc: str
    w: str


def _bytes_as(word: str) -> Load:
    def _load(buffer: Any, index: Any, _i: Any) -> Expr:
        *outer, start = index
        return tirx.reinterpret(word, buffer[(*outer, tirx.Ramp(start, T.int64(1), LANES))])

    return _load


def _element(buffer: Any, index: Any, i: Any) -> Expr:
    *outer, start = index
    return buffer[(*outer, start + i)]


def _rounded(buffer: Any, index: Any, i: Any) -> Expr:
    return tirx.call_pure_extern("float32", "rounded_to_half", _element(buffer, index, i))


def _widened(buffer: Any, index: Any, i: Any) -> Expr:
    return tirx.call_pure_extern("float32", "half_as_float", _element(buffer, index, i))


def _dp4a(acc: Expr, x: Expr, w: Expr) -> Expr:
    return tirx.call_pure_extern("int32", "__dp4a", x, w, acc)


def _in_every_byte(word: str) -> Callable[[Expr], Expr]:
    def _fill(z: Expr) -> Expr:
        return ((z & tirx.const(0xFF, "int32")) * tirx.const(0x01010101, "int32")).astype(word)

    return _fill


def _dp4a_of(word: str) -> Step:
    return Step(
        word=word,
        words=1,
        load=_bytes_as(word),
        load_w=_bytes_as("int32"),
        fill=_in_every_byte(word),
        step=_dp4a,
        acc="int32",
        w="int8",
    )


_F32 = Step(
    word="float32",
    words=LANES,
    load=_element,
    load_w=_element,
    fill=lambda z: z,
    step=lambda acc, x, w: acc + x * w,
    acc="float32",
    w="float32",
)
_F16 = replace(_F32, load=_rounded, load_w=_widened, w="uint16")
_STEPS = {
    "int8": _dp4a_of("int32"),
    "uint8": _dp4a_of("uint32"),
    "float32": _F32,
}


def step_of(spec: Conv2d | Dense) -> Step:
    """Return how the products of ``spec`` are added."""
    return _F16 if spec.half else _STEPS[spec.x]


def stored(spec: Conv2d | Dense, w: np.ndarray) -> np.ndarray:
    """Return weights as memory holds them: where products are halves, the bits of float16."""
    return w.astype(np.float16).view(np.uint16) if spec.half else w
