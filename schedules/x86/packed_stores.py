"""Round four neighbouring pixels to bytes together on AVX-512.

The end of an epilogue takes a vector of 16 sums to 16 bytes by a maximum, a sum and a conversion of
int32; four vectors fit one register as bytes, two as int16, where these steps are shared:

    Before:  for w in unroll(4): y[w] = uint8(max(rint(t[w]), low) + z)           16 bytes each
    After:   a, b = (max(packssdw(rint(t[i]), rint(t[i + 1])), low) + z for i in (0, 2))
             y[0:4] = transposed(packuswb(a, b))                                  64 bytes

vpackssdw and vpackuswb work in each quarter of a register, so that bytes of four channels of each
pixel alternate; one vpermd puts them in order.

Done to the scheduled kernel and not by its schedule, so that tuning records hold.

Exact:  bit-identical. Saturation to int16 comes before a maximum with ``low``, which is no less
        than -255; the results are bytes already when they are packed.
Source: Intel Intrinsics Guide, _mm512_packs_epi32, _mm512_packus_epi16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Range
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.buffers import ramp
from schedules.bodies.vectors import broadcast
from schedules.cpu.dot import LANES
from schedules.cpu.tiles.contraction import STORE

PIXELS = 4  # vectors of int32 whose bytes fill a register
COLUMN = 3  # axis of columns among those of y
PACKED_BYTES = {"uint8": "llvm.x86.avx2.packuswb", "int8": "llvm.x86.avx2.packsswb"}


@dataclass(frozen=True)
class Rounded:
    """The value of a store: ``dtype(max(integer, low) + z)``."""

    integer: Expr
    low: Expr
    z: Expr
    dtype: str


def with_packed_stores(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled contraction kernel that stores its columns by fours, where it can."""

    def _packed(loop: tirx.For) -> tirx.For | tirx.Stmt:
        realize = loop.body
        if loop.kind != tirx.ForKind.UNROLLED or not isinstance(realize, SBlockRealize):
            return loop
        extent = int(loop.extent)
        store = realize.block.body
        if extent < PIXELS or realize.block.name_hint != STORE:
            return loop
        if not is_true(realize.predicate) or not _is_over_columns(loop):
            return loop
        if rounded(store.value) is None:
            return loop
        wide = range(0, extent - PIXELS + 1, PIXELS)
        rest = range(extent - extent % PIXELS, extent)
        columns = [*((first, PIXELS) for first in wide), *((column, 1) for column in rest)]
        return sequence([_columns(loop, first, count) for first, count in columns])

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, _packed)))


def _columns(loop: tirx.For, first: int, count: int) -> SBlockRealize:
    """Return the block that stores ``count`` columns of a tile, one or four."""
    realize, block = loop.body, loop.body.block
    values = {
        each.var: substituted(value, {loop.loop_var: tirx.const(first, "int64")})
        for each, value in zip(block.iter_vars, realize.iter_values, strict=True)
    }
    column = block.iter_vars[COLUMN].var
    store = block.body
    if count == 1:
        body = substituted(store, values)
    else:
        stored = [
            rounded(substituted(store.value, {**values, column: values[column] + pixel}))
            for pixel in range(count)
        ]
        indices = [substituted(index, values) for index in store.indices]
        indices[-1] = ramp(count * LANES)
        body = tirx.BufferStore(
            store.buffer, packed_bytes([part for part in stored if part]), indices
        )
    reads, writes = (
        [_widened(region, values, column, count) for region in regions]
        for regions in (block.reads, block.writes)
    )
    return SBlockRealize([], True, SBlock([], reads, writes, block.name_hint, body))


def _widened(region: Any, values: dict[tirx.Var, Expr], column: tirx.Var, count: int) -> Any:
    """Return what ``count`` columns read or write, from what one does."""
    ranges = []
    for extent in region.region:
        is_column = extent.min.same_as(column)
        size = tirx.const(count, "int64") if is_column else extent.extent
        ranges.append(Range.from_min_extent(substituted(extent.min, values), size))
    return tirx.BufferRegion(region.source, ranges)


def packed_bytes(parts: list[Rounded]) -> Expr:
    """Return the 64 bytes of four values."""
    low, z = (broadcast(value.astype("int16"), 2 * LANES) for value in (parts[0].low, parts[0].z))
    pairs = [
        tirx.max(_packed_words(parts[i].integer, parts[i + 1].integer), low) + z for i in (0, 2)
    ]
    packed = tirx.call_llvm_pure_intrin("int8x64", "llvm.x86.avx512.packuswb.512", *pairs)
    words = tirx.reinterpret(f"int32x{LANES}", packed)
    order = [PIXELS * quarter + pixel for pixel in range(PIXELS) for quarter in range(PIXELS)]
    return tirx.reinterpret(f"uint8x{PIXELS * LANES}", tirx.Shuffle([words], order))


def packed_pair(first: Expr, second: Expr) -> tuple[Expr, Expr]:
    """Return two values of an epilogue, of 16 lanes, with the steps of their ends shared on AVX2.

    A register holds one of them as int16, both as bytes.
    """
    parts = [rounded(value, tuple(PACKED_BYTES)) for value in (first, second)]
    if parts[0] is None or parts[1] is None or parts[0].dtype != parts[1].dtype:
        return first, second
    dtype = parts[0].dtype
    words = [words_of_halves(part) for part in parts if part]
    bytes_of = tirx.call_llvm_pure_intrin(f"int8x{2 * LANES}", PACKED_BYTES[dtype], *words)
    quads = T.Bind(tirx.reinterpret("int32x8", bytes_of))
    # In each half of the register, channels 0 to 3 and 8 to 11 of both, then the others.
    one, other = (tirx.Shuffle([quads], [i, i + 4, i + 1, i + 5]) for i in (0, 2))
    return tuple(tirx.reinterpret(f"{dtype}x{LANES}", quad) for quad in (one, other))


def words_of_halves(parts: Rounded) -> Expr:
    """Return the results of an epilogue as int16: lanes 0 to 3, 8 to 11, 4 to 7, 12 to 15."""
    bound = T.Bind(parts.integer)
    halves = [tirx.Shuffle([bound], list(range(lane, lane + 8))) for lane in (0, 8)]
    packed = tirx.call_llvm_pure_intrin(f"int16x{LANES}", "llvm.x86.avx2.packssdw", *halves)
    above = tirx.max(packed, broadcast(parts.low.astype("int16"), LANES))
    return above + broadcast(parts.z.astype("int16"), LANES)


def one_by_one(parts: Rounded) -> Expr:
    """Return the 16 bytes of one value."""
    low, z = (broadcast(value, LANES) for value in (parts.low, parts.z))
    return tirx.Cast(f"uint8x{LANES}", tirx.max(parts.integer, low) + z)


def _packed_words(first: Expr, second: Expr) -> Expr:
    name = "llvm.x86.avx512.packssdw.512"
    return tirx.call_llvm_pure_intrin(f"int16x{2 * LANES}", name, first, second)


def rounded(value: Expr, dtypes: Sequence[str] = ("uint8",)) -> Rounded | None:
    """Return the parts of a value that an epilogue rounds to ``dtypes``, None for another value."""
    dtype = str(value.ty.dtype).removesuffix(f"x{LANES}")
    if not isinstance(value, tirx.Cast) or dtype not in dtypes:
        return None
    total = value.value
    if not isinstance(total, tirx.Add) or not isinstance(total.b, tirx.Broadcast):
        return None
    largest = total.a
    if not isinstance(largest, tirx.Max) or not isinstance(largest.b, tirx.Broadcast):
        return None
    if str(largest.ty.dtype) != f"int32x{LANES}":
        return None
    return Rounded(largest.a, largest.b.value, total.b.value, dtype)


def substituted(node: Any, values: dict[tirx.Var, Expr]) -> Any:
    """Return an expression or statement with values in the place of variables."""
    return tvm_ffi.structural_map(node, (tirx.Var, lambda var: values.get(var, var)))


def _is_over_columns(loop: tirx.For) -> bool:
    """Say whether a loop stores columns of an image in NCHW16c, where neighbours adjoin."""
    realize, store = loop.body, loop.body.block.body
    axes = realize.block.iter_vars
    if not isinstance(store, tirx.BufferStore) or len(axes) != COLUMN + 1:
        return False
    is_image = len(store.indices) == COLUMN + 2 and int(store.buffer.ty.shape[-1]) == LANES
    if not is_image or not store.indices[COLUMN].same_as(axes[COLUMN].var):
        return False
    variables: list[tirx.Var] = []
    tvm_ffi.structural_walk(realize.iter_values[COLUMN], (tirx.Var, variables.append))
    return any(variable.same_as(loop.loop_var) for variable in variables)


def sequence(statements: Sequence[tirx.Stmt]) -> tirx.Stmt:
    """Return statements one after the other; TVM has no sequence of one."""
    return tirx.SeqStmt(statements) if len(statements) > 1 else statements[0]


def is_true(predicate: Expr) -> bool:
    """Say whether the condition of a block always holds."""
    return isinstance(predicate, tirx.IntImm) and bool(predicate.value)
