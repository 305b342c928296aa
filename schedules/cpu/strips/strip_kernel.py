"""Products with constant weights on copies of x, as the instruction takes them.

Where an instruction multiplies another type than tensors have, each task copies what it reads of x
once, and many blocks of channels read the copy. Loops (p parallel):

    p:n*strip*part            some rows of y (positions, where rows do not matter), some channels
      copy                    what the strip reads of x, widened, with its border
      group                   ``blocks`` blocks of 16 channels
        row  tile             ``columns`` columns, whose sums are in registers
          k...                the instruction
          epilogue

Tiles, and strips, of one size cover all: the last begins early enough, and computes once more
what the one before it did. Exact:  integers always.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import int64
from schedules.bodies.buffers import allocate, declare_arguments, ramp, whole
from schedules.bodies.epilogue import epilogue
from schedules.bodies.prim_func import axes, prim_func
from schedules.bodies.vectors import cast
from schedules.cpu.dot import LANES, Dot
from schedules.cpu.strips.strip_rule import Extents, StripTiles
from schedules.cpu.tiles.conv_arguments import clear_tail
from schedules.cpu.tiles.prefetch import asked
from schedules.cpu.written_out import SPEC
from schedules.spec import Conv2d, Dense
from schedules.spec.text import to_json

STRIP = "strip"
CHUNK = 32  # elements of a row that are copied at once
LINE_BYTES = 64  # of a cache
MANY_TILES = 8  # that read the same weights

Index = Sequence[Expr]


@dataclass(frozen=True, kw_only=True)
class Strip:
    """What a kernel reads and writes.

    Parameters
    ----------
    spec
        The operator.
    buffers
        Name -> (shape, dtype) of each argument, in order.
    extents
        Of y and of the sums.
    reduction
        Extents of the loops of a sum, those of a block of weights.
    copy
        ``(buffers, n, first row)`` -> the copy of what a strip reads, emitted.
    x
        ``(copy, row of the strip, column, block, k)`` -> the elements of x of one step.
    inside
        ``(row, k)`` -> conditions without which there is nothing to add.
    bias
        ``(buffers, row, block)`` -> the 16 lanes that a sum begins with.
    lanes
        ``(n, block, row, column)`` -> the index of the 16 lanes in y, and in r.
    store
        ``(buffers, (n, block, row, column), lanes)`` emits their store; None for one of 16.
    """

    spec: Conv2d | Dense
    buffers: dict[str, tuple[Sequence[Any], str]]
    extents: Extents
    reduction: tuple[int, ...]
    copy: Callable[[dict[str, Any], Expr, Expr], Any]
    x: Callable[[Any, Expr, Expr, Expr, Index], Expr]
    inside: Callable[[Expr, Index], list[Expr]]
    bias: Callable[[dict[str, Any], Expr, Expr], Expr]
    lanes: Callable[[Index], Index]
    store: Callable[[dict[str, Any], Index, Expr], None] | None = None


def strip_prim_func(dot: Dot, name: str, strip: Strip, strips: StripTiles) -> tirx.PrimFunc:
    """Return the PrimFunc of template ``name``, for ``strips``."""
    flops = 2 * LANES * dot.width * strip.extents.steps * strip.extents.positions
    with prim_func(estimated_flops=flops * strip.extents.blocks) as builder:
        buffers = declare_arguments(strip.buffers)
        with T.sblock("root"):
            _Emitter(dot, name, strip, strips, buffers).emit()
    return builder.get()


@dataclass(frozen=True, kw_only=True)
class _Tile:
    """Where a tile lies: in image n, from a row of the strip, a column and a block of y on."""

    n: Expr
    first: Expr  # row of y of the strip, or position
    row: Expr
    column: Expr
    block: Expr
    index: Expr  # among the tiles of a strip
    sums: list[list[Any]]  # by column and block
    weights: Callable[[int, Index], Expr]  # those of a step, of a block of the tile


class _Emitter:
    """Emits the loops of a kernel into the IRBuilder that is open."""

    def __init__(
        self, dot: Dot, name: str, strip: Strip, strips: StripTiles, buffers: dict[str, Any]
    ) -> None:
        self.dot, self.name, self.strip = dot, name, strip
        self.strips, self.buffers = strips, buffers

    def emit(self) -> None:
        """Emit a task for each part of each strip of each image."""
        strip, extents = self.strip, self.strip.extents
        parts, count = self.strips.parts, extents.strips(self.strips)
        tasks = int64([extents.batch * (count * parts)])
        loop = T.parallel if extents.parallel else T.serial
        with loop(*tasks) as task, T.sblock(STRIP):
            (t,) = axes("t", tasks, [task])
            T.reads(*(whole(buffer) for name, buffer in self.buffers.items() if name != "y"))
            T.writes(whole(self.buffers["y"]))
            T.sblock_attr({"template": self.name, SPEC: to_json(strip.spec)})
            self._task(t // (count * parts), t // parts % count, t % parts)

    def _task(self, n: Expr, strip: Expr, part: Expr) -> None:
        extents, strips = self.strip.extents, self.strips
        first = tirx.min(strip * strips.rows, T.int64(extents.rows - strips.rows))
        copy = self.strip.copy(self.buffers, n, first)
        groups = extents.blocks // (strips.blocks * strips.parts)
        rows, width = extents.tiled(strips)
        across = -(-width // strips.columns)
        with T.serial(T.int64(groups)) as group:
            block = T.Bind((part * groups + group) * strips.blocks)
            weights = self._weights(block, rows * across)
            with T.serial(T.int64(rows)) as row, T.serial(T.int64(across)) as tile:
                columns = range(strips.columns)
                self._tile(
                    copy,
                    _Tile(
                        n=n,
                        first=first,
                        row=row,
                        column=tirx.min(tile * strips.columns, T.int64(width - strips.columns)),
                        block=block,
                        index=row * across + tile,
                        sums=[[_accumulator() for _ in range(strips.blocks)] for _ in columns],
                        weights=weights,
                    ),
                )

    def _weights(self, block: Expr, tiles: int) -> Callable[[int, Index], Expr]:
        """Return what reads the weights of a step; where many tiles do, from a copy of them."""
        w, lanes = self.buffers["w"], LANES * self.dot.width
        if self.dot.staged in (None, self.dot.weights) or tiles < MANY_TILES:
            return lambda b, k: w[(block + b, *k, ramp(lanes))]
        reduction = int64(self.strip.reduction)
        shape = [*int64([self.strips.blocks]), *reduction, *int64([lanes])]
        panel = allocate("panel", shape, self.dot.staged)
        with T.grid(*shape[:-1]) as (b, *k):
            value = cast(w[(block + b, *k, ramp(lanes))], self.dot.staged)
            T.buffer_store(panel, value, [b, *k, ramp(lanes)])
        return lambda b, k: panel[(T.int64(b), *k, ramp(lanes))]

    def _tile(self, copy: Any, tile: _Tile) -> None:
        """Emit the sums of a tile and what becomes of them."""
        flat = self.strip.extents.flat
        for b in range(self.strips.blocks):
            bias = T.Bind(self.strip.bias(self.buffers, tile.first + tile.row, tile.block + b))
            for of_column in tile.sums:
                T.buffer_store(of_column[b], bias, [ramp(LANES)])
        self._reduce(copy, tile, [])
        values: list[tuple[Index, Expr]] = []
        for c, of_column in enumerate(tile.sums):
            row, column = tile.first + tile.row, tile.column + c
            at = (T.int64(0), tile.first + column) if flat else (row, column)
            for b, acc in enumerate(of_column):
                place = (tile.n, tile.block + b, *at)
                values.append((place, self._value(place, acc[ramp(LANES)])))
        self._store(values)

    def _value(self, place: Index, acc: Expr) -> Expr:
        """Return the 16 lanes of y at a place."""
        spec, buffers, block = self.strip.spec, self.buffers, place[1]

        def _load(name: str, index: int | None = None) -> Expr:
            return buffers[name][block, ramp(LANES)] if index is None else buffers[name][index]

        r = buffers["r"][tuple(self.strip.lanes(place))] if "r" in buffers else None
        y = epilogue(spec, acc, _load, r)
        return clear_tail(spec, block, y) if isinstance(spec, Conv2d) else y

    def _store_one(self, place: Index, value: Expr) -> None:
        if self.strip.store:
            self.strip.store(self.buffers, place, value)
        else:
            T.buffer_store(self.buffers["y"], value, list(self.strip.lanes(place)))

    def _store(self, values: list[tuple[Index, Expr]]) -> None:
        """Emit the stores of lanes of y, two by two."""
        for (place, value), (other_place, other) in zip(values[::2], values[1::2], strict=False):
            one, two = self.dot.paired(value, other)
            self._store_one(place, one)
            self._store_one(other_place, two)
        if len(values) % 2:
            self._store_one(*values[-1])

    def _reduce(self, copy: Any, tile: _Tile, k: list[Expr]) -> None:
        """Emit the loops of the sums, from index ``k`` on inwards."""
        reduction = self.strip.reduction
        if len(k) == 1:
            self._ask(tile, k[0])
        if len(k) == len(reduction):
            return self._step(copy, tile, k)
        with T.serial(T.int64(reduction[len(k)])) as index:
            inner = [*k, index]
            conditions = self.strip.inside(tile.first + tile.row, inner)
            if not conditions:
                return self._reduce(copy, tile, inner)
            with T.If(tirx.all(*conditions)), T.Then():
                self._reduce(copy, tile, inner)
        return None

    def _step(self, copy: Any, tile: _Tile, k: list[Expr]) -> None:
        """Emit one step of the instruction for each sum."""
        vectors = [T.Bind(tile.weights(b, k)) for b in range(self.strips.blocks)]
        for c, of_column in enumerate(tile.sums):
            x = T.Bind(self.strip.x(copy, tile.row, tile.column + c, tile.block, k))
            for w, acc in zip(vectors, of_column, strict=True):
                T.buffer_store(acc, self.dot.step(acc[ramp(LANES)], x, w), [ramp(LANES)])

    def _ask(self, tile: _Tile, outermost: Expr) -> None:
        """Ask for this tile's share of the next blocks' weights, see ``tiles.prefetch``."""
        w, strips = self.buffers["w"], self.strips
        rows, width = self.strip.extents.tiled(strips)
        tiles = rows * -(-width // strips.columns)
        inner = [int(extent) for extent in w.shape[2:]]
        line_elements = LINE_BYTES // np.dtype(self.dot.weights).itemsize
        lines = prod(inner) // line_elements
        share = -(-lines // tiles)
        if not share:
            return
        zeros = [T.int64(0)] * (len(inner) - 1)
        with T.If(tile.index * share < lines), T.Then():
            for b in range(strips.blocks):
                for i in range(share):
                    line = (tile.index * share + i) * line_elements
                    block = tile.block + strips.blocks + b
                    T.evaluate(asked(w, [block, outermost, *zeros, line]))


def _accumulator() -> Any:
    return allocate("acc", (LANES,), "int32")
