"""Round the pixels of a window kernel to bytes by fours, see ``schedules.x86.packed_stores``.

A window has one or two neighbouring pixels; those of several rows of a tile are packed together:

    Before:  for h in unroll(rows):      y[h, w] = uint8(max(rint(t), low) + z)
    After:   for h_o in unroll(rows / 2):
                 for h_i in unroll(2):   integers[h_i, w] = rint(t)
                 y[2 h_o], y[2 h_o + 1] = halves of the four, packed

Seven rows of two pixels are three times four, and two by themselves. Done to the scheduled kernel,
so that tuning records hold.

Exact:  bit-identical, as there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import Expr

from schedules.bodies.buffers import ramp, whole
from schedules.cpu.dot import LANES
from schedules.cpu.windows.window_kernel import BLOCK
from schedules.x86.packed_stores import (
    PIXELS,
    Rounded,
    is_true,
    one_by_one,
    packed_bytes,
    rounded,
    substituted,
)

MOST_PIXELS = 16  # TVM keeps buffers of 1024 bytes on the stack, and LLVM those in registers
ROW = 2  # axis of rows among those of y


def with_packed_windows(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled window kernel that stores its pixels by fours, where it can."""

    def _packed(loop: tirx.For) -> tirx.For | tirx.Stmt:
        stores = _stores(loop)
        if not stores or int(loop.extent) < PIXELS // len(stores):
            return loop
        return _by_fours(loop, stores)

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, _packed)))


def _stores(loop: tirx.For) -> list[tirx.BufferStore]:
    """Return the stores of one window in a loop over the rows of a tile; none of another loop."""
    inner = loop.body
    is_tile = isinstance(inner, tirx.For) and isinstance(inner.body, SBlockRealize)
    if not is_tile or loop.kind != tirx.ForKind.UNROLLED or int(inner.extent) != 1:
        return []
    realize = inner.body
    if realize.block.name_hint != BLOCK or not is_true(realize.predicate):
        return []
    stores: list[tirx.BufferStore] = []
    tvm_ffi.structural_walk(realize.block.body, (tirx.BufferStore, stores.append))
    if len(stores) not in (1, 2, PIXELS) or any(rounded(store.value) is None for store in stores):
        return []
    return stores


def _by_fours(loop: tirx.For, stores: list[tirx.BufferStore]) -> tirx.For:
    """Return the loop over the rows of a tile, in groups whose pixels fit ``integers``."""
    pixels = len(stores)
    rows = _rows(int(loop.extent), pixels)
    integers = tirx.decl_buffer((rows * pixels,), f"int32x{LANES}", "integers", layout=None)
    group, row = (tirx.Var(name, "int64") for name in ("h_o", "h_i"))
    realize = loop.body.body
    first = {loop.body.loop_var: _int64(0), loop.loop_var: group * rows}
    kept = substituted(
        _keeping(realize, stores, integers, row * pixels),
        {**first, loop.loop_var: group * rows + row},
    )
    windows = tirx.For(row, _int64(0), _int64(rows), tirx.ForKind.UNROLLED, kept)
    body = SBlock(
        [],
        [whole(region.source) for region in realize.block.reads],
        [whole(stores[0].buffer)],
        "packed",
        tirx.SeqStmt([windows, *_packed_rows(realize, stores, integers, first, rows)]),
        alloc_buffers=[integers],
    )
    count = int(loop.extent) // rows
    return tirx.For(
        group, _int64(0), _int64(count), tirx.ForKind.UNROLLED, SBlockRealize([], True, body)
    )


def _rows(height: int, pixels: int) -> int:
    """Return the rows of a group: they divide the tile, and leave the fewest pixels over."""
    fitting = [
        rows for rows in range(1, height + 1) if height % rows == 0 and rows * pixels <= MOST_PIXELS
    ]
    return max(fitting, key=lambda rows: (-(rows * pixels % PIXELS / rows), -rows))


def _keeping(
    realize: SBlockRealize, stores: list[tirx.BufferStore], integers: Any, first: Expr
) -> SBlockRealize:
    """Return the block of a window with its pixels kept as integers, from ``first`` on."""
    positions = {store.buffer: 0 for store in stores}

    def _kept(store: tirx.BufferStore) -> tirx.BufferStore:
        position = positions[store.buffer]
        positions[store.buffer] += 1
        return tirx.BufferStore(integers, _parts(store).integer, [first + position])

    block = realize.block
    body = tvm_ffi.structural_map(block.body, (tirx.BufferStore, _kept))
    kept = SBlock(
        block.iter_vars,
        block.reads,
        [whole(integers)],
        block.name_hint,
        body,
        block.init,
        block.alloc_buffers,
        block.match_buffers,
        block.annotations,
    )
    return SBlockRealize(realize.iter_values, realize.predicate, kept)


def _packed_rows(
    realize: SBlockRealize,
    stores: list[tirx.BufferStore],
    integers: Any,
    first: dict[tirx.Var, Expr],
    rows: int,
) -> list[tirx.Stmt]:
    """Return the stores of ``rows`` rows of a window, from the integers."""
    values = {
        each.var: substituted(value, first)
        for each, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
    }
    pixels, parts = len(stores), _parts(stores[0])
    indices = [substituted(index, values) for index in stores[0].indices]
    statements: list[tirx.Stmt] = []

    def _store(row: int, share: Expr) -> None:
        at = [*indices[:ROW], indices[ROW] + row, *indices[ROW + 1 : -1], ramp(pixels * LANES)]
        statements.append(tirx.BufferStore(stores[0].buffer, share, at))

    height = PIXELS // pixels
    packed_rows = rows - rows % height
    for start in range(0, packed_rows, height):
        four = [replace(parts, integer=integers[start * pixels + i]) for i in range(PIXELS)]
        vector = tirx.Var("bytes", f"uint8x{PIXELS * LANES}")
        statements.append(tirx.Bind(vector, packed_bytes(four)))
        for i in range(height):
            lanes = range(i * pixels * LANES, (i + 1) * pixels * LANES)
            _store(start + i, vector if height == 1 else tirx.Shuffle([vector], list(lanes)))
    for row in range(packed_rows, rows):
        shares = [
            one_by_one(replace(parts, integer=integers[row * pixels + i])) for i in range(pixels)
        ]
        _store(row, shares[0] if pixels == 1 else tirx.Shuffle(shares, list(range(pixels * LANES))))
    return statements


def _parts(store: tirx.BufferStore) -> Rounded:
    parts = rounded(store.value)
    assert parts is not None
    return parts


def _int64(value: int) -> tirx.IntImm:
    return tirx.const(value, "int64")
