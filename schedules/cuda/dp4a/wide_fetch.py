"""Fetches of neighbouring words of x as one access: what no scheduling instruction can say.

    Before:  for j in range(4):                                         annotated WIDE
                 staged[.., w + j] = word of x[.., w + j, :] if inside else fill
    After:   staged[.., w : w + 4] = words of x[.., w : w + 4, :] if inside else 4 times fill

A word is put together of four bytes; TVM does not vectorize what is a vector already.

Exact:  the words are all in the image or none, see ``contraction.Contraction.run``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import Range
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import ExprRV, LoopRV, SBlockRV
from tvm.sym import Analyzer
from tvm.tirx import Expr

from schedules.cuda.dp4a.contraction import RUN, STRIDES, WRITE
from schedules.cuda.dp4a.tiles import Split

WIDE = "wide_fetch"


def begins_runs(sch: Schedule, dot: SBlockRV, w: Split, kw: Sequence[LoopRV]) -> bool:
    """Whether every fetch of x begins at a run, for its first column of y and its first tap."""
    notes = sch.get(dot).annotations
    run, (columns, taps) = int(notes[RUN]), (int(stride) for stride in notes[STRIDES])
    if run < 2:
        return False
    whole = int(sch.get(sch.get_sblock(WRITE)).iter_vars[3].dom.extent)
    tile = prod(
        int(sch.get(factor) if isinstance(factor, ExprRV) else factor or 1) for factor in w[1:]
    )
    steps, own_taps = (int(sch.get(loop).extent) for loop in kw)
    return (tile == whole or tile * columns % run == 0) and (
        steps == 1 or own_taps * taps % run == 0
    )


def stage_in_runs(sch: Schedule, x_shared: SBlockRV, run: int) -> None:
    """Lay staged columns out in runs, so that whole ones are fetched for whatever part is read."""

    def _in_runs(n: Expr, k: Expr, h: Expr, w: Expr, _word: Expr) -> list[Expr]:
        return [n, k, h, w // run, w % run]

    sch.transform_layout(x_shared, ("write", 0), _in_runs)


def widened(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled kernel whose loops annotated ``WIDE`` are one access each."""

    def _widen(loop: tirx.For) -> tirx.Stmt:
        return _one_access(loop) if WIDE in loop.annotations else loop

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, _widen)))


def _one_access(loop: tirx.For) -> tirx.Stmt:
    """Return the block inside a loop over neighbouring words, storing all of them."""
    words, realize = int(loop.extent), loop.body
    first = {loop.loop_var: tirx.const(0, "int64")}

    def _at_first(value: Expr) -> Expr:
        replaced = tvm_ffi.structural_map(value, (ir.Var, lambda var: first.get(var, var)))
        return Analyzer().simplify(replaced)

    block, store = realize.block, realize.block.body
    *index, word = store.indices
    (write,) = block.writes
    *outer, column = write.region
    several = Range.from_min_extent(column.min, tirx.const(words, "int64"))
    wide = SBlock(
        block.iter_vars,
        block.reads,
        [tirx.BufferRegion(write.source, [*outer, several])],
        block.name_hint,
        tirx.BufferStore(store.buffer, _vector(store.value, words), [*index, _ramp(word, words)]),
        annotations=block.annotations,
    )
    values = [_at_first(value) for value in realize.iter_values]
    return SBlockRealize(values, _at_first(realize.predicate), wide)


def _vector(value: Any, words: int) -> Expr:
    """Return what a word and those that follow it are."""
    name = getattr(getattr(value, "op", None), "name", "")
    if name == "prim.if_then_else":
        condition, inside, fill = value.args
        return tirx.if_then_else(condition, _vector(inside, words), _vector(fill, words))
    if name == "tirx.reinterpret":
        (bytes_,) = value.args
        *index, ramp = bytes_.indices
        wider = tirx.BufferLoad(bytes_.source, [*index, _ramp(ramp.base, int(ramp.lanes) * words)])
        return tirx.reinterpret(f"{value.ty.dtype}x{words}", wider)
    return tirx.Broadcast(value, words)


def _ramp(start: Expr, count: int) -> Expr:
    return tirx.Ramp(start, tirx.const(1, "int64"), count)
