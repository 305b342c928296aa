"""Norms and softmax on a CPU: sixteen elements of a row at once.

Norms of images in blocks of channels: see ``channel_norms`` and ``pixel_norms``.

    x     : float32, row major
    y     : float32, int8 or uint8, row major
    gamma, beta float32 (n,) or (channels,), epsilon, count float32 (1,)   norms
    s float32 (1,), z int32 (1,), clamp float32 (2,)                      integer y

Loops after scheduling (p parallel):

    p:row
      sums, squares           vectors of 16 in one register
      y                       the same, by channel where a channel shares gamma

The last vector ends where the row ends, and so overlaps the one before it: what a sum has seen is
left out, what y has is written again. Rows of less than 16 are taken by 8, 4, 2 and 1. Softmax
keeps the exponentials of a row, in y where that is float32, else in memory of its own.

Exact:  bit-identical to the specification: the partial sums are the lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies import rows
from schedules.bodies.body import template_blocks, template_name
from schedules.bodies.buffers import flat, ramp, whole
from schedules.bodies.prim_func import axes, prim_func
from schedules.bodies.row_major import row_major_template
from schedules.bodies.rows import RowSpec
from schedules.bodies.vectors import broadcast, splat
from schedules.cpu.elementwise import SERIAL_ELEMENTS, refuses_cpu
from schedules.cpu.lanes import shuffle
from schedules.cpu.norms import channel_norms, pixel_norms
from schedules.layout import NCHW16C, ROW
from schedules.spec import Normalize, Softmax
from schedules.spec.normalizing import PARTIAL_SUMS
from schedules.spec.operator_spec import FLOAT32_MAX
from schedules.template import Layouts

Piece = Callable[[Expr, int, int, int], None]
Scaled = Callable[[Expr, Expr, Expr, int], None]


def refuses(spec: RowSpec, target: Target) -> str | None:
    """Say why the template cannot be used, or None."""
    if isinstance(spec, Softmax) and spec.span > 1:
        return f"{spec.span} rows lie side by side"
    if isinstance(spec, Normalize) and spec.pixels and spec.channels % NCHW16C.block:
        return f"the pixels have {spec.channels} channels, which fill no whole blocks"
    return refuses_cpu(target) or rows.refuses(spec)


def kernel(spec: RowSpec) -> tirx.PrimFunc:
    """Return the unscheduled kernel: one block, a row of x each."""
    with prim_func() as builder:
        buffers = rows.declare(spec)
        count = math.prod(buffers["x"].shape) // spec.size
        with T.sblock("root"), T.serial(count) as loop, T.sblock("row"):
            (row,) = axes("row", [count], [loop])
            T.reads(*(whole(buffer) for name, buffer in buffers.items() if name != "y"))
            T.writes(whole(buffers["y"]))
            T.sblock_attr({"template": template_name(spec.kind)})
            emitter = _Row(spec, buffers, row)
            _EMIT[spec.kind](emitter)
    return builder.get()


@dataclass
class _Row:
    """Emits one row; x and y are seen as flat memory."""

    spec: Any
    buffers: dict[str, Any]
    row: Expr
    x: Any = field(init=False)
    y: Any = field(init=False)

    def __post_init__(self) -> None:
        self.x, self.y = (flat(self.buffers[name]) for name in "xy")

    def indices(self, first: Expr, count: int) -> Expr:
        """Return where elements of the row lie."""
        return ramp(count, self.row * self.spec.size + first)

    def write(self, first: Expr, t: Expr, count: int) -> None:
        """Store elements of y."""
        y = rows.stored(self.spec, t, self.buffers)
        T.buffer_store(self.y, y, [self.indices(first, count)])

    def joined(
        self,
        start: float,
        join: Callable[[Expr, Expr], Expr],
        step: Callable[[Expr, Expr], Expr],
        source: Callable[[Expr, int], Expr] | None = None,
    ) -> Expr:
        """Return the partial results of a row by ``step``, joined by the tree."""
        parts = _registers(PARTIAL_SUMS)
        everywhere = ramp(PARTIAL_SUMS)
        T.buffer_store(parts, splat(start, "float32", PARTIAL_SUMS), [everywhere])

        def _add(first: Expr, lane: int, count: int, seen: int) -> None:
            lanes = ramp(count, T.int64(lane))
            value = self.x[self.indices(first, count)] if source is None else source(first, count)
            if seen:
                value = _without(value, seen, start)
            T.buffer_store(parts, step(value, parts[lanes]), [lanes])

        each_piece(self.spec.size, _add)
        return _tree(parts[everywhere], join)


def each_piece(size: int, emit: Piece) -> None:
    """Emit a loop over vectors of sixteen elements, then what is left.

    ``emit`` gets the first element, the lane of the first, how many there are, and how many of
    these were in the vector before.
    """
    whole, rest = divmod(size, PARTIAL_SUMS)
    if whole:
        with T.serial(T.int64(0), T.int64(whole)) as i:
            emit(i * PARTIAL_SUMS, 0, PARTIAL_SUMS, 0)
        if rest:
            emit(T.int64(size - PARTIAL_SUMS), 0, PARTIAL_SUMS, PARTIAL_SUMS - rest)
        return
    first = 0
    for count in (8, 4, 2, 1):
        if rest & count:
            emit(T.int64(first), first, count, 0)
            first += count


def _normalize(row: _Row) -> None:
    spec: Normalize = row.spec
    mean = tirx.const(0, "float32")
    if spec.centred:
        mean = T.bind(rows.mean(row.joined(0, _sum, _sum), row.buffers))

    def _deviation(first: Expr, count: int) -> Expr:
        return rows.deviation(spec, row.x[row.indices(first, count)], mean)

    squares = row.joined(0, _sum, rows.square_added, _deviation)
    inv = T.bind(rows.inverse(squares, row.buffers))

    def _scaled(first: Expr, gamma: Expr, beta: Expr, count: int) -> None:
        d = _deviation(first, count)
        row.write(first, rows.scaled(d, inv, gamma, beta), count)

    (_by_element if spec.axes else _by_channel)(row, _scaled)


def _by_element(row: _Row, scaled: Scaled) -> None:
    """Emit the elements of a row, each with a gamma and beta of its own."""
    gamma, beta = (row.buffers[name] for name in ("gamma", "beta"))

    def _own(first: Expr, _lane: int, count: int, _seen: int) -> None:
        here = ramp(count, first)
        scaled(first, gamma[here], beta[here], count)

    each_piece(row.spec.size, _own)


def _by_channel(row: _Row, scaled: Scaled) -> None:
    """Emit the elements of a row channel by channel."""
    spec: Normalize = row.spec
    gamma, beta = (row.buffers[name] for name in ("gamma", "beta"))
    width = spec.channels // spec.groups
    with T.serial(T.int64(0), T.int64(width)) as within:
        channel = row.row % spec.groups * width + within

        def _shared(first: Expr, _lane: int, count: int, _seen: int) -> None:
            factors = [broadcast(values[channel], count) for values in (gamma, beta)]
            scaled(within * spec.span + first, factors[0], factors[1], count)

        each_piece(spec.span, _shared)


def _softmax(row: _Row) -> None:
    spec: Softmax = row.spec
    top = T.bind(rows.finite(row.joined(-FLOAT32_MAX, tirx.max, tirx.max)))
    is_float = spec.y == "float32"
    kept = row.y if is_float else _registers(spec.size)

    def _indices(first: Expr, count: int) -> Expr:
        return row.indices(first, count) if is_float else ramp(count, first)

    exponentials: list[Expr] = []

    def _kept(first: Expr, count: int) -> Expr:
        e = T.bind(rows.exponential(row.x[row.indices(first, count)], top))
        T.buffer_store(kept, e, [_indices(first, count)])
        exponentials.append(e)
        return e

    total = T.bind(row.joined(0, _sum, _sum, _kept))

    # The loop divides some of the last vector in y: it is taken from registers.
    def _share(first: Expr, _lane: int, count: int, seen: int) -> None:
        e = exponentials[-1] if seen else kept[_indices(first, count)]
        row.write(first, rows.share(e, total), count)

    each_piece(spec.size, _share)


_EMIT: dict[str, Callable[[_Row], None]] = {"normalize": _normalize, "softmax": _softmax}


def _sum(value: Expr, total: Expr) -> Expr:
    return total + value


def _without(value: Expr, seen: int, start: float) -> Expr:
    """Return a vector from its element ``seen`` on, moved to the first lanes; ``start`` behind."""
    nothing = splat(start, "float32", PARTIAL_SUMS)
    return tirx.Shuffle(
        [value, nothing], [*range(seen, PARTIAL_SUMS), *range(PARTIAL_SUMS, PARTIAL_SUMS + seen)]
    )


def _tree(parts: Expr, join: Callable[[Expr, Expr], Expr]) -> Expr:
    """Return the lanes of a vector joined: l and l + 8, l and l + 4, l and l + 2, the last two."""
    half = PARTIAL_SUMS // 2
    while half:
        parts = T.bind(join(shuffle(parts, range(half, 2 * half)), shuffle(parts, range(half))))
        half //= 2
    return parts


def _registers(count: int) -> Any:
    return T.sblock_alloc_buffer((T.int64(count),), "float32", layout=None)


def _schedule(sch: Schedule, spec: RowSpec, target: Target) -> None:
    """Share the rows of a large tensor, or blocks of them, among threads."""
    (block,) = template_blocks(sch)
    (loop,) = sch.get_loops(block)
    if math.prod(size for size in spec.dims if isinstance(size, int)) >= SERIAL_ELEMENTS:
        sch.parallel(loop)


def _norm_layouts(spec: Normalize, wanted: Layouts) -> Layouts:
    """Take channels of images in blocks, where they come so, or rows are pixels; else rows."""
    is_blocked = (wanted.inputs[0] == NCHW16C and channel_norms.computes(spec)) or spec.pixels
    layout = NCHW16C if is_blocked else ROW
    return Layouts(inputs=(layout,), output=layout)


def _norm_kernel(spec: Normalize, layouts: Layouts) -> tirx.PrimFunc:
    if spec.pixels:
        return pixel_norms.kernel(spec)
    return kernel(spec) if layouts.output == ROW else channel_norms.kernel(spec)


_NORMALIZE_ROWS = row_major_template(
    "normalize", template_name("normalize"), refuses, kernel, _schedule
)
NORMALIZE_CPU = replace(_NORMALIZE_ROWS, layouts=_norm_layouts, kernel=_norm_kernel)
SOFTMAX_CPU = row_major_template("softmax", template_name("softmax"), refuses, kernel, _schedule)
