"""Attention in one kernel, for any instruction flavour: scores and probabilities stay in cache.

    q, k, v, mask, y : as they lie in memory, see ``schedules.spec.product``

Regions of tasks (p parallel), as ``schedules.cpu.products.product`` has them; a task of the last
one makes ``rows`` queries:

    p:b*h*block   panels of keys            p:b*h*block   panels of values
    p:b*h*tile    scores of the tile   row: maximum, powers, their sum   values, quotient, y

Scores are int32 sums, or with a mask float32; powers are bytes, the rows of the second product.

Exact:  bit-identical to the specification.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.buffers import allocate, declare_operator, ramp, whole
from schedules.bodies.epilogue import requantized
from schedules.bodies.matrices import (
    Matrix,
    attention_refusal,
    outer_count,
)
from schedules.bodies.powers import power
from schedules.bodies.prim_func import axes, prim_func
from schedules.bodies.row_major import row_major_template
from schedules.bodies.vectors import broadcast, cast, fma, splat
from schedules.cpu.dot import LANES, Dot
from schedules.cpu.lanes import joined
from schedules.cpu.products.matrix_tasks import tasks
from schedules.cpu.products.matrix_tiles import (
    Row,
    Rows,
    Tile,
    accumulate,
    by_blocks,
    first_row,
    store_lanes,
    tile_of,
)
from schedules.cpu.products.panels import Panels
from schedules.cpu.signs import SIGN, moved_zero, row_type
from schedules.spec import Attention
from schedules.spec.operator_spec import FLOAT32_MAX
from schedules.spec.product import MASKED_SCORE
from schedules.template import ScheduleTemplate


def attention_template(dot: Dot) -> ScheduleTemplate:
    """Return the template of attention, "attention_<flavour>"."""
    name = f"attention_{dot.name}"

    def _refuses(spec: Attention, target: Target) -> str | None:
        return dot.refuses(row_type(dot), target) or attention_refusal(spec)

    def _kernel(spec: Attention) -> tirx.PrimFunc:
        return kernel(dot, name, spec)

    return row_major_template("attention", name, _refuses, _kernel)


def kernel(dot: Dot, name: str, spec: Attention) -> tirx.PrimFunc:
    """Return the PrimFunc of template ``name``; there is nothing left to schedule."""
    with prim_func(estimated_flops=2 * spec.multiplications) as builder:
        buffers = declare_operator(spec, {"z": 4, "clamp": 2, "m_scores": spec.heads})
        with T.sblock("root"):
            _Emitter(dot, name, spec, buffers).emit()
    return builder.get()


class _Emitter:
    """Emits the regions of a kernel into the IRBuilder that is open."""

    def __init__(self, dot: Dot, name: str, spec: Attention, buffers: dict[str, Any]) -> None:
        self.dot, self.name, self.spec, self.buffers = dot, name, spec, buffers
        width = dot.width
        self.keys = Panels(
            dot=dot, columns=spec.keys, depth=spec.depth, steps=-(-spec.depth // width)
        )
        self.padded = self.keys.blocks * LANES
        self.values = Panels(
            dot=dot, columns=spec.width, depth=spec.keys, steps=self.padded // width
        )
        height = tile_of(dot, spec.queries, self.keys.blocks).rows
        self.queries = Rows(
            dot=dot,
            source=self._matrix("q", spec.queries, spec.depth),
            tile=Tile(rows=height, blocks=1),
            steps=self.keys.steps,
        )
        self.height = height
        self.powers = row_type(dot)
        self.shift = 0 if self.powers == "uint8" else SIGN
        self.copied = dot.staged or self.powers
        self.scores = "int32" if spec.mask_strides is None else "float32"
        self.outer = outer_count(spec)

    def emit(self) -> None:
        """Emit the panels, then the tiles of queries."""
        keys = self._packed("k", self.keys, self._matrix("k", self.spec.keys, self.spec.depth))
        rows_of_v = self._matrix("v", self.spec.keys, self.spec.width)
        values = self._packed("v", self.values, rows_of_v.turned)
        tiles = -(-self.spec.queries // self.height)
        with tasks(self.spec, self.outer * tiles) as task, T.sblock("attention"):
            (t,) = axes("t", [self.outer * tiles], [task])
            read = [self.buffers[name] for name in ("q", *self.spec.tensors[3:], *self.spec.params)]
            T.reads(*map(whole, (*keys, *values, *read)))
            T.writes(whole(self.buffers["y"]))
            T.sblock_attr({"template": self.name})
            first_query = first_row(t % tiles, self.height, self.spec.queries)
            self._tile(t // tiles, first_query, keys, values)

    def _matrix(self, name: str, rows: int, columns: int) -> Matrix:
        strides = getattr(self.spec, f"{name}_strides")
        return Matrix(
            buffer=self.buffers[name],
            strides=strides,
            heads=self.spec.heads,
            rows=rows,
            columns=columns,
        )

    def _packed(self, name: str, panels: Panels, source: Matrix) -> tuple[Any, Any]:
        """Emit the region that packs one operand; return its panels and sums."""
        packed, sums = panels.buffers(self.outer, f"{name}_panels")
        count = self.outer * panels.blocks
        with tasks(self.spec, count) as task, T.sblock(f"{name}_panels"):
            (t,) = axes("t", [count], [task])
            T.reads(whole(self.buffers[name]))
            T.writes(whole(packed), whole(sums))
            panels.pack(source, t // panels.blocks, t % panels.blocks, packed, sums)
        return packed, sums

    def _tile(self, outer: Expr, first: Expr, keys: Any, values: Any) -> None:
        scores = allocate("scores", (self.height, self.padded), self.scores)
        powers = allocate("powers", (self.height, self.padded), self.copied)
        totals = allocate("totals", (self.height,), "int32")
        self._score(outer, first, keys, scores)
        with T.serial(T.int64(self.height)) as r:
            self._raise(outer, r, scores, powers, totals)
        self._mix(outer, first, values, powers, totals)

    def _score(self, outer: Expr, first: Expr, keys: Any, scores: Any) -> None:
        """Emit the scores of a tile of queries."""
        spec, (panels, sums) = self.spec, keys
        row = self.queries.reader(outer, first)
        z_q = moved_zero(self.buffers["z"][0], spec.q, self.queries.dtype)
        z_k = moved_zero(self.buffers["z"][1], spec.k, self.keys.dtype)
        corrections = self.queries.corrections(row, z_q, z_k)
        mask = self._mask(outer, first)

        def _blocks(block: Expr, count: int) -> None:
            accumulators = self._products(self.keys, panels, outer, block, count, row)
            for j in range(count):
                of_keys = T.Bind(sums[outer, block + j, ramp(LANES)] * broadcast(z_q, LANES))
                for r in range(self.height):
                    acc = accumulators[r][j] - of_keys - broadcast(corrections[T.int64(r)], LANES)
                    value = (
                        self._counted(acc, block + j) if mask is None else mask(acc, r, block + j)
                    )
                    T.buffer_store(scores, value, [T.int64(r), ramp(LANES, (block + j) * LANES)])

        blocks = tile_of(self.dot, spec.queries, self.keys.blocks).blocks
        by_blocks(self.keys.blocks, blocks, _blocks)

    def _products(
        self, panels: Panels, packed: Any, outer: Expr, block: Expr, count: int, row: Row
    ) -> list[list[Expr]]:
        lanes = LANES * self.dot.width
        return accumulate(
            self.dot,
            Tile(rows=self.height, blocks=count),
            panels.steps,
            row,
            lambda j, step: packed[outer, block + j, step, ramp(lanes)],
        )

    def _factor(self, outer: Expr) -> Expr:
        """Return the multiplier of the scores of a head."""
        return self.buffers["m_scores"][outer % self.spec.heads]

    def _counted(self, acc: Expr, block: Expr) -> Expr:
        """Return scores, lanes past the last key far below all others."""
        if self.spec.keys == self.padded:
            return acc
        return tirx.Select(self._exist(block), acc, splat(MASKED_SCORE, "int32", LANES))

    def _exist(self, block: Expr) -> Expr:
        """Say of each lane of a block whether there is such a key."""
        key = tirx.Ramp(cast(block, "int32") * LANES, tirx.const(1, "int32"), LANES)
        return key < splat(self.spec.keys, "int32", LANES)

    def _mask(self, outer: Expr, first: Expr) -> Callable[[Expr, int, Expr], Expr] | None:
        """Return ``(acc, row of the tile, block) -> masked scores``, or None without a mask."""
        strides = self.spec.mask_strides
        if strides is None:
            return None
        matrix = self._matrix("mask", self.spec.queries, self.spec.keys)
        flat, start = matrix.flat(), T.Bind(matrix.start(outer))
        m = broadcast(self._factor(outer), LANES)
        _, _, _, down, across = strides
        ragged = self.spec.keys != self.padded

        def _masked(acc: Expr, r: int, block: Expr) -> Expr:
            offset = start + (first + r) * down
            # What stands past the last key is not read: the last mask is, again.
            last = self.spec.keys - LANES
            if across == 1 and last >= 0:
                begin = tirx.min(block * LANES, T.int64(last)) if ragged else block * LANES
                value = flat[ramp(LANES, offset + begin)]
                if ragged:
                    value = self._shifted(value, block, last)
            else:
                keys = [
                    tirx.min(block * LANES + i, T.int64(self.spec.keys - 1)) for i in range(LANES)
                ]
                value = tirx.Shuffle(
                    [flat[offset + key * across] for key in keys], list(range(LANES))
                )
            logarithmic = value * splat(math.log2(math.e), "float32", LANES)
            score = fma(cast(acc, "float32"), m, logarithmic)
            if not ragged:
                return score
            nothing = splat(-math.inf, "float32", LANES)
            return tirx.Select(self._exist(block), score, nothing)

        return _masked

    def _shifted(self, value: Expr, block: Expr, last: int) -> Expr:
        """Return lanes of the last block, which were read early enough to end with the row."""
        by = self.padded - self.spec.keys
        order = [min(i + by, LANES - 1) for i in range(LANES)]
        whole_block = tirx.Cast("int32", block * LANES <= last)
        moved = tirx.Shuffle([value], order)
        chosen = broadcast(whole_block, LANES) != splat(0, "int32", LANES)
        return tirx.Select(chosen, value, moved)

    def _raise(self, outer: Expr, r: Expr, scores: Any, powers: Any, totals: Any) -> None:
        """Emit the powers of one row of scores, and their sum."""
        low = MASKED_SCORE if self.scores == "int32" else -FLOAT32_MAX
        most = allocate("most", (LANES,), self.scores)
        sum_of = allocate("sum", (LANES,), "int32")
        all_lanes, blocks = [ramp(LANES)], T.int64(self.keys.blocks)
        T.buffer_store(most, splat(low, self.scores, LANES), all_lanes)
        T.buffer_store(sum_of, splat(0, "int32", LANES), all_lanes)
        with T.serial(blocks) as block:
            score = scores[r, ramp(LANES, block * LANES)]
            T.buffer_store(most, tirx.max(most[ramp(LANES)], score), all_lanes)
        top = broadcast(T.Bind(joined(most[ramp(LANES)], tirx.max)), LANES)
        with T.serial(blocks) as block:
            below = scores[r, ramp(LANES, block * LANES)] - top
            if self.scores == "int32":
                below = cast(below, "float32") * broadcast(self._factor(outer), LANES)
            u = T.Bind(power(below))
            T.buffer_store(sum_of, sum_of[ramp(LANES)] + u, all_lanes)
            value = u if self.powers == "uint8" else u - splat(SIGN, "int32", LANES)
            T.buffer_store(powers, cast(value, self.copied), [r, ramp(LANES, block * LANES)])
        T.buffer_store(totals, joined(sum_of[ramp(LANES)], lambda a, b: a + b), [r])

    def _mix(self, outer: Expr, first: Expr, values: Any, powers: Any, totals: Any) -> None:
        """Emit the means of values, and y."""
        spec, (panels, sums) = self.spec, values
        z_v = moved_zero(self.buffers["z"][2], spec.v, self.values.dtype)
        y = self._matrix("y", spec.queries, spec.width)
        flat, start = y.flat(), T.Bind(y.start(outer))
        _, _, _, down, across = spec.y_strides
        width = self.dot.width
        bounds = (self.buffers["clamp"][0], self.buffers["clamp"][1])

        def _row(r: Any, step: Expr) -> Expr:
            return powers[T.int64(r), ramp(width, step * width)]

        def _blocks(block: Expr, count: int) -> None:
            accumulators = self._products(self.values, panels, outer, block, count, _row)
            for j in range(count):
                left = spec.width - (block + j) * LANES if spec.width % LANES else LANES
                for r in range(self.height):
                    total = totals[T.int64(r)]
                    acc = accumulators[r][j] - broadcast(total * z_v, LANES)
                    if self.shift:
                        shift = splat(self.shift, "int32", LANES)
                        acc = acc + sums[outer, block + j, ramp(LANES)] * shift
                    whole_of = tirx.max(total, tirx.const(1, "int32"))
                    divisor = broadcast(whole_of.astype("float32"), LANES)
                    mean = cast(acc, "float32") / divisor
                    scaled = mean * broadcast(self.buffers["m"][0], LANES)
                    offset = start + (first + r) * down + (block + j) * (LANES * across)
                    result = requantized(scaled, self.buffers["z"][3], bounds, spec.y)
                    store_lanes(flat, result, offset, across, left)

        blocks = tile_of(self.dot, spec.queries, self.values.blocks).blocks
        by_blocks(self.values.blocks, blocks, _blocks)
