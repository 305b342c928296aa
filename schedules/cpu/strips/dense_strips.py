"""Matrix product with constant weights, row major, for instructions that multiply a copy of x.

    x       : (rows, k)
    w       : (n/16, k/width/u, u, 16 lanes * width)   a vector per step, u steps unrolled
    bias, m, m_neg, alpha : (n/16, 16)
    y       : (rows, n)

Strips are runs of rows; symbolic rows are images of one. What steps read at the end of a row, and
lanes past n, is as in ``schedules.cpu.contractions.dense``.
"""

from __future__ import annotations

from typing import Any

from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.buffers import allocate, ramp
from schedules.bodies.vectors import cast
from schedules.cpu.contractions import dense
from schedules.cpu.dot import LANES, Dot
from schedules.cpu.strips.strip_kernel import CHUNK, Index, Strip
from schedules.cpu.strips.strip_rule import Extents, StripTiles
from schedules.cpu.tiles.runs import by_chunks
from schedules.spec import Dense


def extents_of(dot: Dot, spec: Dense) -> Extents:
    """Return the sizes of a matrix product."""
    outer, inner = dense.steps_of(dot, spec)
    return Extents(
        batch=spec.rows if _is_symbolic(spec) else 1,
        rows=1 if _is_symbolic(spec) else spec.rows,
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

    def _copy(buffers: dict[str, Any], n: Expr, first: Expr) -> Any:
        return _copied(dot, spec, strips.rows, buffers["x"], n if _is_symbolic(spec) else first)

    def _x(copy: Any, row: Expr, column: Expr, block: Expr, k: Index) -> Expr:
        return copy[column, dense.step_elements(dot, spec, k)]

    def _bias(buffers: dict[str, Any], row: Expr, block: Expr) -> Expr:
        return buffers["bias"][block, ramp(LANES)]

    def _row(place: Index) -> Expr:
        return place[0] if _is_symbolic(spec) else place[3]

    def _store(buffers: dict[str, Any], place: Index, value: Expr) -> None:
        dense.store_lanes(spec, buffers["y"], _row(place), place[1], value)

    return Strip(
        spec=spec,
        buffers=dense.buffers_of(dot, spec),
        extents=extents,
        reduction=steps,
        copy=_copy,
        x=_x,
        inside=lambda row, k: [],
        bias=_bias,
        lanes=lambda place: (_row(place), ramp(LANES, place[1] * LANES)),
        store=_store,
    )


def _is_symbolic(spec: Dense) -> bool:
    """Whether rows are counted when the kernel runs: they are images of one then."""
    return not isinstance(spec.rows, int)


pack = dense.pack


def _copied(dot: Dot, spec: Dense, rows: int, x: Any, first: Expr) -> Any:
    """Emit the copy of some rows of x; return its buffer (rows, k)."""
    dtype = dot.staged or spec.x
    copy = allocate("copy", [rows, spec.k], dtype)
    with T.serial(T.int64(rows)) as row:

        def _elements(k: Expr, count: int) -> None:
            lanes = ramp(count, k)
            T.buffer_store(copy, cast(x[first + row, lanes], dtype), [row, lanes])

        by_chunks(spec.k, CHUNK, _elements)
    return copy
