"""One sum of products of two rows of activations, by a thread of a GPU.

Where rows are runs of whole words, four products at a time (dp4a): b as int8, one of the other sign
moved by 128, zero points by the sums of both rows. Elsewhere one at a time.

Exact:  int32 sums of ``(a - z_a) * (b - z_b)``; float32 sums ascend, each product rounded with its
        sum (fma).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.matrices import Matrix
from schedules.bodies.vectors import fma
from schedules.cuda.statements import registers
from schedules.spec import Attention, Product

WORD = 4
SIGN = 128


@dataclass(frozen=True, kw_only=True)
class Line:
    """Elements of a flat buffer, ``step`` apart, with their zero point (0 of floats)."""

    buffer: Any
    step: int
    z: Expr

    @property
    def dtype(self) -> str:
        """Element type."""
        return str(self.buffer.dtype)


@contextmanager
def grid(blocks: Expr, threads: int) -> Iterator[tuple[Expr, Expr]]:
    """Open the loops over blocks and their threads."""
    with (
        T.thread_binding(T.int64(0), blocks, "blockIdx.x") as block,
        T.thread_binding(T.int64(0), T.int64(threads), "threadIdx.x") as thread,
    ):
        yield block, thread


def matrix_of(spec: Product | Attention, buffers: dict[str, Any], name: str) -> Matrix:
    """Return operand ``name``; rows and columns are not asked for here."""
    strides = getattr(spec, f"{name}_strides")
    return Matrix(buffer=buffers[name], strides=strides, heads=spec.heads, rows=0, columns=0)


def accumulator(name: str, dtype: str) -> Any:
    """Declare a register of the thread that is zero."""
    buffer = registers(name, 1, dtype)
    T.buffer_store(buffer, tirx.const(0, dtype), [T.int64(0)])
    return buffer


def dot(a: Line, a_start: Expr, b: Line, b_start: Expr, depth: int) -> Expr:
    """Emit the sum of ``depth`` products; return it."""
    if a.dtype == "float32":
        return _floats(a, a_start, b, b_start, depth)
    if depth % WORD or a.step != 1 or b.step != 1:
        return _bytes(a, a_start, b, b_start, depth)
    return _words(a, a_start, b, b_start, depth)


def _floats(a: Line, a_start: Expr, b: Line, b_start: Expr, depth: int) -> Expr:
    acc = accumulator("acc", "float32")
    with T.serial(T.int64(depth)) as k:
        x, w = a.buffer[a_start + k * a.step], b.buffer[b_start + k * b.step]
        T.buffer_store(acc, fma(x, w, acc[T.int64(0)]), [T.int64(0)])
    return acc[T.int64(0)]


def _bytes(a: Line, a_start: Expr, b: Line, b_start: Expr, depth: int) -> Expr:
    acc = accumulator("acc", "int32")
    with T.serial(T.int64(depth)) as k:
        x = a.buffer[a_start + k * a.step].astype("int32") - a.z
        w = b.buffer[b_start + k * b.step].astype("int32") - b.z
        T.buffer_store(acc, acc[T.int64(0)] + x * w, [T.int64(0)])
    return acc[T.int64(0)]


def _words(a: Line, a_start: Expr, b: Line, b_start: Expr, depth: int) -> Expr:
    products, of_a, of_b = (accumulator(name, "int32") for name in ("acc", "of_a", "of_b"))
    word = "uint32" if a.dtype == "uint8" else "int32"
    ones = 0x01010101
    with T.serial(T.int64(depth // WORD)) as k:
        x = T.Bind(tirx.reinterpret(word, a.buffer[_four(a_start + k * WORD)]))
        w = tirx.reinterpret("int32", b.buffer[_four(b_start + k * WORD)])
        if b.dtype == "uint8":
            w = w ^ tirx.reinterpret("int32", tirx.const(0x80808080, "uint32"))
        w = T.Bind(w)
        for acc, left, right in (
            (products, x, w),
            (of_a, x, tirx.const(ones, "int32")),
            (of_b, tirx.const(ones, "int32"), w),
        ):
            T.buffer_store(acc, _dp4a(left, right, acc[T.int64(0)]), [T.int64(0)])
    z_b = b.z - (SIGN if b.dtype == "uint8" else 0)
    sums = products[T.int64(0)] - z_b * of_a[T.int64(0)] - a.z * of_b[T.int64(0)]
    return sums + a.z * z_b * depth


def _four(start: Expr) -> Expr:
    return tirx.Ramp(start, T.int64(1), WORD)


def _dp4a(a: Expr, b: Expr, acc: Expr) -> Expr:
    return tirx.call_pure_extern("int32", "__dp4a", a, b, acc)
