"""Products of two activations, for any instruction flavour.

    a, b, y : as they lie in memory, see ``schedules.spec.product``

Two regions of tasks (p parallel): panels of b, a block each, then tiles of rows of a:

    p:b*h*block   panels, sums
    p:b*h*tile    rows   blocks   steps   the instruction, the epilogue

``sum (a - z_a) * (b - z_b)`` is the sum of products as they are multiplied, less z_a times that of
the column, less z_b times that of the row of ``a - z_a``. The last is left out where z_b is 0.

Exact:  integers always; float32 sums ascend over k.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.buffers import declare_operator, ramp, whole
from schedules.bodies.epilogue import requantized
from schedules.bodies.fixed_point import to_integer, wide
from schedules.bodies.matrices import (
    Matrix,
    outer_count,
    product_refusal,
)
from schedules.bodies.prim_func import axes, prim_func
from schedules.bodies.row_major import row_major_template
from schedules.bodies.vectors import broadcast, cast
from schedules.cpu.dot import LANES, Dot
from schedules.cpu.products.matrix_tasks import tasks
from schedules.cpu.products.matrix_tiles import (
    Rows,
    Tile,
    accumulate,
    by_blocks,
    first_row,
    store_lanes,
    tile_of,
)
from schedules.cpu.products.panels import Panels
from schedules.cpu.signs import moved_zero, row_type
from schedules.spec import Product
from schedules.template import ScheduleTemplate


def product_template(dot: Dot) -> ScheduleTemplate:
    """Return the template of products of two activations, "product_<flavour>"."""
    name = f"product_{dot.name}"

    def _refuses(spec: Product, target: Target) -> str | None:
        return dot.refuses(_multiplied(dot, spec.a), target) or product_refusal(spec)

    def _kernel(spec: Product) -> tirx.PrimFunc:
        return kernel(dot, name, spec)

    return row_major_template("product", name, _refuses, _kernel)


def kernel(dot: Dot, name: str, spec: Product) -> tirx.PrimFunc:
    """Return the PrimFunc of template ``name``; there is nothing left to schedule."""
    with prim_func(estimated_flops=2 * spec.multiplications) as builder:
        buffers = declare_operator(spec, {"z": 3, "clamp": 2})
        with T.sblock("root"):
            _Emitter(dot, name, spec, buffers).emit()
    return builder.get()


def _multiplied(dot: Dot, dtype: str) -> str:
    """Return the type that ``dot`` is given for rows of ``dtype``."""
    return dtype if dtype == "float32" or dot.float32 else row_type(dot)


class _Emitter:
    """Emits the two regions of a kernel into the IRBuilder that is open."""

    def __init__(self, dot: Dot, name: str, spec: Product, buffers: dict[str, Any]) -> None:
        self.dot, self.name, self.spec, self.buffers = dot, name, spec, buffers
        steps = -(-spec.depth // dot.width)
        self.panels = Panels(dot=dot, columns=spec.columns, depth=spec.depth, steps=steps)
        self.a = self._matrix("a", spec.rows)
        self.b = self._matrix("b", spec.columns)
        tile = tile_of(dot, spec.rows, self.panels.blocks)
        self.rows = Rows(dot=dot, source=self.a, tile=tile, steps=steps)
        self.outer = outer_count(spec)

    def emit(self) -> None:
        """Emit the panels, then the products."""
        panels, sums = self.panels.buffers(self.outer, "panels")
        with tasks(self.spec, self.outer * self.panels.blocks) as task, T.sblock("panels"):
            (t,) = axes("t", [self.outer * self.panels.blocks], [task])
            T.reads(whole(self.buffers["b"]))
            T.writes(whole(panels), whole(sums))
            blocks = self.panels.blocks
            self.panels.pack(self.b, t // blocks, t % blocks, panels, sums)
        height = self.rows.tile.rows
        tiles = -(-self.spec.rows // height)
        with tasks(self.spec, self.outer * tiles) as task, T.sblock("product"):
            (t,) = axes("t", [self.outer * tiles], [task])
            T.reads(whole(panels), whole(sums), *map(whole, self._read()))
            T.writes(whole(self.buffers["y"]))
            T.sblock_attr({"template": self.name})
            self._tile(t // tiles, first_row(t % tiles, height, self.spec.rows), panels, sums)

    def _matrix(self, name: str, rows: int) -> Matrix:
        strides = getattr(self.spec, f"{name}_strides")
        return Matrix(
            buffer=self.buffers[name],
            strides=strides,
            heads=self.spec.heads,
            rows=rows,
            columns=self.spec.depth,
        )

    def _read(self) -> list[Any]:
        return [self.buffers[name] for name in ("a", *self.spec.params)]

    def _tile(self, outer: Expr, first: Expr, panels: Any, sums: Any) -> None:
        row = self.rows.reader(outer, first)
        spec, tile, integer = self.spec, self.rows.tile, not self.dot.float32
        y = Matrix(
            buffer=self.buffers["y"],
            strides=spec.y_strides,
            heads=spec.heads,
            rows=spec.rows,
            columns=spec.columns,
        )
        flat, start = y.flat(), T.Bind(y.start(outer))
        if integer:
            z_a = moved_zero(self.buffers["z"][0], spec.a, self.rows.dtype)
            z_b = moved_zero(self.buffers["z"][1], spec.b, self.panels.dtype)
            corrections = self.rows.corrections(row, z_a, z_b)

        def _blocks(block: Expr, count: int) -> None:
            part = Tile(rows=tile.rows, blocks=count)
            width = LANES * self.dot.width
            accumulators = accumulate(
                self.dot,
                part,
                self.panels.steps,
                row,
                lambda j, step: panels[outer, block + j, step, ramp(width)],
            )
            for j in range(count):
                if integer:
                    of_columns = T.Bind(sums[outer, block + j, ramp(LANES)] * broadcast(z_a, LANES))
                left = spec.columns - (block + j) * LANES if spec.columns % LANES else LANES
                for r in range(tile.rows):
                    acc = accumulators[r][j]
                    if integer:
                        acc = acc - of_columns - broadcast(corrections[T.int64(r)], LANES)
                    offset = start + (first + r) * spec.y_strides[3]
                    offset = offset + (block + j) * (LANES * spec.y_strides[4])
                    store_lanes(flat, self._result(acc), offset, spec.y_strides[4], left)

        by_blocks(self.panels.blocks, tile.blocks, _blocks)

    def _result(self, acc: Expr) -> Expr:
        """Return lanes of y from lanes of the exact sum."""
        spec, load = self.spec, self.buffers
        bounds = (load["clamp"][0], load["clamp"][1])
        if self.dot.float32:
            return requantized(acc, tirx.const(0, "int32"), bounds, "float32")
        z, m = load["z"][2], load["m"][0]
        if not spec.rounding:
            scaled = cast(acc, "float32") * broadcast(m, LANES)
            return requantized(scaled, z, bounds, spec.y)
        product = wide(acc) * wide(broadcast(m, LANES))
        shift, low, high, zero = (
            broadcast(value, LANES) for value in (load["shift"][0], *bounds, z)
        )
        return to_integer(product, shift, zero, (low, high), spec.y, spec.rounding)
