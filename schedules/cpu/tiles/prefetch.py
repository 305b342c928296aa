"""Fetch the weights of the next task while this one computes, and lines that will be written.

A task computes ``rows`` rows of y for ``blocks`` blocks of output channels, and reads the weights
of these blocks anew for each tile of a row: from memory for the first one, from the second cache
afterwards. Memory is idle then, so each tile also asks for its share of what the next task will
read first:

    for k1 ...:                                 an annotated loop of "dot"
        prefetch a few lines of w[blocks of the next task, k0, k1, ...]
        ...

Shares are small and even: a core that waits for more than some twenty lines at once stops loading
anything (decision 87). Where a network's weights do not stay in the last cache between two runs,
tasks no longer wait for memory. Kernels that write long rows ask for the lines of these themselves
(:func:`asked_to_write`, decision 110).

Exact:  a prefetch computes nothing, and may name any address.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV

from schedules.cpu.tiles.tile_rule import ContractionTiles

AHEAD = "prefetch_ahead"
READ, SECOND_CACHE, DATA = 0, 2, 1  # arguments of llvm.prefetch
WRITE, FIRST_CACHE = 1, 3


def fetch_ahead(sch: Schedule, loop: LoopRV, tiles: ContractionTiles) -> None:
    """Have :func:`prefetched` put prefetches into ``loop``, one of the reduction's."""
    sch.annotate(loop, AHEAD, [tiles.blocks, tiles.rows, tiles.columns])


def prefetched(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled kernel with the prefetches that its loops ask for."""

    def _add(loop: tirx.For) -> tirx.For:
        if AHEAD not in loop.annotations:
            return loop
        tile = [int(value) for value in loop.annotations[AHEAD]]
        others = {name: value for name, value in loop.annotations.items() if name != AHEAD}
        body = tirx.SeqStmt([_prefetch(loop, *tile), loop.body])
        return tirx.For(
            loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, others
        )

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, _add)))


def _prefetch(loop: tirx.For, blocks: int, rows: int, columns: int) -> tirx.Stmt:
    """Return what one iteration of ``loop`` asks for: its lines, shared by the tiles of a task."""
    realize = _update(loop)
    weights = next(read.source for read in realize.block.reads if read.source.name == "w")
    o, row, column, *reduction = (_first(loop, value) for value in realize.iter_values[1:])
    outer = len(reduction) // 2
    channels, *extents, vector = (int(extent) for extent in weights.shape)
    lines = prod(extents[outer:])  # of a block
    tiles = -(-int(realize.block.writes[0].source.shape[3]) // columns)  # of a row
    share = -(-blocks * lines // (rows * tiles))
    first = (tirx.floormod(row, rows) * tiles + tirx.floordiv(column, columns)) * share
    i = tirx.Var("i", "int64")
    next_o, line = tirx.floordiv(first + i, lines), tirx.floormod(first + i, lines)
    zeros = [_int64(0)] * (len(extents) - outer)
    next_task = tirx.floormod(o + blocks, channels)
    at = [next_task + next_o, *reduction[:outer], *zeros, line * vector]
    ask = tirx.Evaluate(asked(weights, at))
    asks = tirx.For(i, _int64(0), _int64(share), tirx.ForKind.UNROLLED, ask)
    return tirx.IfThenElse(tirx.LT(first, _int64(blocks * lines)), asks, None)


def asked(weights: Any, at: Sequence[Any]) -> tirx.Expr:
    """Return the prefetch of the line at index ``at``, which may lie past the end."""
    return _hinted(weights, at, (READ, SECOND_CACHE, DATA))


def asked_to_write(y: Any, at: Sequence[Any]) -> tirx.Expr:
    """Return the prefetch of a line that will be written; it may lie past the end."""
    return _hinted(y, at, (WRITE, FIRST_CACHE, DATA))


def _hinted(buffer: Any, at: Sequence[Any], hints: Sequence[int]) -> tirx.Expr:
    address = tirx.address_of(tirx.BufferLoad(buffer, list(at)))
    flags = [tirx.const(hint, "int32") for hint in hints]
    return tirx.call_llvm_intrin("void", "llvm.prefetch.p0", address, *flags)


def _update(loop: tirx.For) -> Any:
    """Return the block realize inside ``loop``."""
    blocks: list[Any] = []

    def _note(node: object) -> None:
        if hasattr(node, "iter_values"):
            blocks.append(node)

    tvm_ffi.structural_walk(loop.body, (object, _note))
    return blocks[0]


def _first(loop: tirx.For, value: ir.Expr) -> Any:
    """Return ``value`` in the first iteration of the loops inside ``loop``."""
    inner: list[Any] = []
    tvm_ffi.structural_walk(loop.body, (tirx.For, lambda nested: inner.append(nested.loop_var)))
    zeros = {var: tirx.const(0, str(var.ty.dtype)) for var in inner}
    return tvm_ffi.structural_map(value, (tirx.Var, lambda var: zeros.get(var, var)))


def _int64(value: int) -> tirx.IntImm:
    return tirx.const(value, "int64")
