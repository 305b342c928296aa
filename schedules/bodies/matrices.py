"""Matrices of activations as kernels read and write them, whatever the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import int64
from schedules.layout import ROW
from schedules.spec import Attention, Product, Strides
from schedules.spec.product import MOST_DEPTH
from schedules.template import Layouts, ScheduleTemplate


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
        size = T.int64(1)
        for extent in self.buffer.shape:
            size = size * extent
        return T.decl_buffer((size,), self.dtype, data=self.buffer.data, layout=None)


def arguments(spec: Product | Attention, lengths: dict[str, int]) -> dict[str, Any]:
    """Declare the arguments of the PrimFunc that is being built, constants of one element."""
    shapes: dict[str, Any] = {name: spec.shape(name) for name in (*spec.tensors, "y")}
    types = {name: spec.dtype(name) for name in shapes}
    shapes |= {name: (lengths.get(name, 1),) for name in spec.params}
    types |= {name: spec.constant_dtype(name) for name in spec.params}
    return {
        name: T.arg(name, T.buffer(int64(shapes[name]), types[name], layout=None))
        for name in (*spec.tensors, *spec.params, "y")
    }


def outer_count(spec: Product | Attention) -> Expr:
    """Return how many matrices there are: an open batch times heads."""
    batch = T.int64(spec.batch) if isinstance(spec.batch, int) else spec.batch
    return batch * T.int64(spec.heads)


def template_of(
    kind: str,
    name: str,
    refuses: Callable[[Any, Target], str | None],
    kernel: Callable[[Any], tirx.PrimFunc],
    x_types: tuple[str, ...] = ("uint8", "int8"),
) -> ScheduleTemplate:
    """Return a template of row-major tensors, whose loops follow from the shape alone."""
    return ScheduleTemplate(
        name=name,
        kind=kind,
        refuses=refuses,
        layouts=_row_major,
        kernel=lambda spec, _layouts: kernel(spec),
        default=_as_built,
        space=_as_built,
        x_types=x_types,
    )


def _row_major(spec: Product | Attention, wanted: Layouts) -> Layouts:
    """Return the only layouts there are: strides are of row-major memory."""
    return Layouts(inputs=(ROW,) * len(spec.tensors), output=ROW)


def _as_built(sch: Schedule, spec: Product | Attention, target: Target) -> None:
    """Leave the loops as the kernel has them."""


def whole(buffer: Any) -> Any:
    """Return the region of all of a buffer."""
    return buffer[tuple(slice(0, extent) for extent in buffer.shape)]


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
