"""Matrices of activations as kernels read and write them, whatever the target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.buffers import flat
from schedules.spec import Attention, Product, Strides
from schedules.spec.product import MOST_DEPTH


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Matrices of all batches and heads, as they lie in memory: (rows, columns), by ``strides``."""

    buffer: Any
    strides: Strides
    heads: int
    rows: int
    columns: int

    @property
    def dtype(self) -> str:
        """Element type."""
        return str(self.buffer.dtype)

    @property
    def turned(self) -> Matrix:
        """The same memory, rows taken for columns."""
        first, batch, head, row, column = self.strides
        strides = (first, batch, head, column, row)
        return replace(self, strides=strides, rows=self.columns, columns=self.rows)

    def start(self, outer: Expr) -> Expr:
        """Return where the matrix of ``outer = batch * heads + head`` begins."""
        first, batch, head, _, _ = self.strides
        return outer // self.heads * batch + outer % self.heads * head + first

    def flat(self) -> Any:
        """Declare the memory as one axis, in the block that is being built."""
        return flat(self.buffer)


def outer_count(spec: Product | Attention) -> Expr:
    """Return how many matrices there are: an open batch times heads."""
    batch = T.int64(spec.batch) if isinstance(spec.batch, int) else spec.batch
    return batch * T.int64(spec.heads)


def product_refusal(spec: Product) -> str | None:
    """Say why no kernel computes ``spec``, or None."""
    floats = [name for name in ("a", "b", "y") if spec.dtype(name) == "float32"]
    if floats and floats not in (["a", "b", "y"], ["y"]):
        return f"a is {spec.a}, b {spec.b} and y {spec.y}; a and b must be floats, or integers"
    return None if spec.a == "float32" else depth_refusal(spec.depth)


def attention_refusal(spec: Attention) -> str | None:
    """Say why no kernel computes ``spec``, or None."""
    return depth_refusal(max(spec.depth, spec.keys))


def depth_refusal(depth: int) -> str | None:
    """Say why ``depth`` products of bytes may not be summed, or None."""
    if depth <= MOST_DEPTH:
        return None
    return f"{depth} products may leave int32; the most are {MOST_DEPTH}"
