"""Fetch the weights of the next task while this one computes.

A task computes ``rows`` rows of y for ``blocks`` blocks of output channels, and reads the weights
of these blocks anew for each row: from memory for the first one, from the second cache afterwards.
Memory is idle then, so each row also asks for its share of what the next task will read first:

    for k0 ...:                                 an annotated loop of "dot"
        if k0 % rows == row % rows:
            prefetch w[blocks of the next task, k0, ...]
        ...

Where a network's weights do not stay in the last cache between two runs, tasks no longer wait for
memory. Exact:  a prefetch computes nothing, and may name any address.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import ExprRV, LoopRV

AHEAD = "prefetch_ahead"
READ, SECOND_CACHE, DATA = 0, 2, 1  # arguments of llvm.prefetch


def fetch_ahead(sch: Schedule, loop: LoopRV, blocks: int | ExprRV, rows: int | ExprRV) -> None:
    """Have :func:`prefetched` put prefetches into ``loop``, the outermost of the reduction."""
    sch.annotate(loop, AHEAD, [blocks, rows])


def prefetched(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled kernel with the prefetches that its loops ask for."""

    def _add(loop: tirx.For) -> tirx.For:
        if AHEAD not in loop.annotations:
            return loop
        blocks, rows = (int(value) for value in loop.annotations[AHEAD])
        others = {name: value for name, value in loop.annotations.items() if name != AHEAD}
        body = tirx.SeqStmt([_prefetch(loop, blocks, rows), loop.body])
        return tirx.For(
            loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, others
        )

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, _add)))


def _prefetch(loop: tirx.For, blocks: int, rows: int) -> tirx.Stmt:
    realize = _update(loop)
    block = realize.block
    weights = next(read.source for read in block.reads if read.source.name == "w")
    o, row, k0 = (_first(loop, realize.iter_values[axis]) for axis in (1, 2, 4))
    channels, _, *taps, vector = (int(extent) for extent in weights.shape)
    lines = 1
    for extent in taps:
        lines *= extent
    next_o, line = tirx.Var("next_o", "int64"), tirx.Var("line", "int64")
    zeros = [_int64(0)] * len(taps)
    at = [tirx.floormod(o + blocks, channels) + next_o, k0, *zeros, line * vector]
    address = tirx.address_of(tirx.BufferLoad(weights, at))
    hints = [tirx.const(hint, "int32") for hint in (READ, SECOND_CACHE, DATA)]
    ask = tirx.Evaluate(tirx.call_llvm_intrin("void", "llvm.prefetch.p0", address, *hints))
    every = _loop(
        next_o, blocks, tirx.ForKind.UNROLLED, _loop(line, lines, tirx.ForKind.SERIAL, ask)
    )
    is_share = tirx.EQ(tirx.floormod(k0, rows), tirx.floormod(row, rows))
    return tirx.IfThenElse(is_share, every, None)


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


def _loop(var: tirx.Var, extent: int, kind: tirx.ForKind, body: tirx.Stmt) -> tirx.For:
    return tirx.For(var, _int64(0), _int64(extent), kind, body)


def _int64(value: int) -> tirx.IntImm:
    return tirx.const(value, "int64")
