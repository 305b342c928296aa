"""Matrix product with constant weights, row major, for instructions that multiply a copy of x.

    x       : (rows, k)
    w       : (n/16, k/width/u, u, 16 lanes * width)   a vector per step, u steps unrolled
    bias, m, m_neg, alpha : (n/16, 16)
    y       : (rows, n)

Strips are runs of rows; symbolic rows are images of one. What steps read at the end of a row, and
lanes past n, is as in ``schedules.cpu.dense``.
"""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import int64
from schedules.bodies.buffers import ramp
from schedules.bodies.epilogue import cast, epilogue
from schedules.cpu import dense
from schedules.cpu.dot import LANES, Dot
from schedules.cpu.strip_kernel import Index, Strip
from schedules.cpu.strip_rule import Extents, StripTiles
from schedules.spec import Dense

CHUNK = 32  # elements of a row that are copied at once


def extents_of(dot: Dot, spec: Dense) -> Extents:
    """Return the sizes of a matrix product."""
    outer, inner = dense.steps_of(dot, spec)
    return Extents(
        rows=spec.rows if isinstance(spec.rows, int) else 1,
        columns=1,
        blocks=-(-spec.n // LANES),
        group_blocks=-(-spec.n // LANES),
        steps=outer * inner,
        stride=1,
        reach=1,
        row_elements=spec.k,
        flat=True,
    )


def strip_of(dot: Dot, spec: Dense, strips: StripTiles) -> Strip:
    """Return what the kernel of a matrix product reads and writes."""
    extents, steps = extents_of(dot, spec), dense.steps_of(dot, spec)
    symbolic = not isinstance(spec.rows, int)

    def _copy(buffers: dict[str, Any], n: Expr, first: Expr) -> Any:
        return _copied(dot, spec, strips.rows, buffers["x"], n if symbolic else first)

    def _x(copy: Any, row: Expr, column: Expr, block: Expr, k: Index) -> Expr:
        return copy[column, dense.step_elements(dot, spec, k)]

    def _bias(buffers: dict[str, Any], row: Expr, block: Expr) -> Expr:
        return buffers["bias"][block, ramp(LANES)]

    def _row(place: Index) -> Expr:
        return place[0] if symbolic else place[3]

    def _value(buffers: dict[str, Any], place: Index, acc: Expr) -> Expr:
        block = place[1]

        def _load(name: str, index: int | None = None) -> Expr:
            return buffers[name][block, ramp(LANES)] if index is None else buffers[name][index]

        r = buffers["r"][_row(place), ramp(LANES, block * LANES)] if "r" in buffers else None
        return epilogue(spec, acc, _load, r)

    def _store(buffers: dict[str, Any], place: Index, value: Expr) -> None:
        dense.store_lanes(spec, buffers["y"], _row(place), place[1], value)

    return Strip(
        spec=spec,
        buffers=dense.buffers_of(dot, spec),
        batch=batch_of(spec),
        extents=extents,
        reduction=steps,
        copy=_copy,
        x=_x,
        inside=lambda row, k: [],
        bias=_bias,
        value=_value,
        store=_store,
    )


def batch_of(spec: Dense) -> Any:
    """Return the images, each of which has strips of its own: symbolic rows, one by one."""
    return 1 if isinstance(spec.rows, int) else spec.rows


pack = dense.pack


def _copied(dot: Dot, spec: Dense, rows: int, x: Any, first: Expr) -> Any:
    """Emit the copy of some rows of x; return its buffer (rows, k)."""
    dtype = dot.staged or spec.x
    copy = T.sblock_alloc_buffer(int64([rows, spec.k]), dtype, layout=None)
    IRBuilder.name("copy", copy)
    whole = spec.k // CHUNK
    with T.serial(T.int64(rows)) as row:
        for count, begin, end in ((CHUNK, 0, whole), (1, whole * CHUNK, spec.k)):
            with T.serial(T.int64(begin), T.int64(end)) as i:
                lanes = ramp(count, i * count)
                T.buffer_store(copy, cast(x[first + row, lanes], dtype), [row, lanes])
    return copy
