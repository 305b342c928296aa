"""The kernel that convolution and dense share on a GPU, before it is scheduled.

Four blocks over output positions p = (n, f, h, w) and four channels c, where f counts blocks of
four channels; k = (channel block, row, column) of the window, i the words of a channel block (one
of four bytes, or four of float32):

    stage       x with its border, in words: what lies outside the image is the zero point
    dot         acc[p, c] = step(acc, stage[source(p, k), i], w[p, k, c, i])
    requantize  y' = epilogue(acc + bias), in y's type
    write       y = y', where there is such an output

A reduction in several slices s has, see ``schedules.cuda.dp4a.split_reduction``:

    dot         part[s, p, c] = step(part, stage[source(p, k), i], w[p, k, c, i]), s's own k
    combine     acc[p, c] = sum of part[s, p, c] over s

h, w and f are rounded up to extents that tiles divide (``roomy``); what is past the image is
computed, not written. See ``schedules.cuda.dp4a.tiles`` for the loops.
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
from schedules.bodies.buffers import allocate, declare_arguments, whole
from schedules.bodies.epilogue import epilogue
from schedules.bodies.prim_func import axes, prim_func
from schedules.cuda.device_math import for_cuda
from schedules.cuda.dp4a.intrin import LANES, step_of
from schedules.spec import Conv2d, Dense

STAGE, DOT, COMBINE = "stage", "dot", "combine"
REQUANTIZE, WRITE = "requantize", "write"
NAMES = "n f h w c"
RUN, STRIDES = "neighbours", "strides"
Index = Sequence[Any]


@dataclass(frozen=True, kw_only=True)
class Contraction:
    """What one kernel reads and writes.

    Parameters
    ----------
    template
        The template's name.
    buffers
        Name -> (shape, dtype) of each argument, in order.
    spatial
        Extents of n, f, h, w, rounded up.
    reduction
        Extents of the channel blocks, rows and columns of a window.
    staged
        Shape of ``stage``, without its words.
    inside
        ``place`` of ``stage`` -> conditions without which it is border.
    x
        ``(buffers, place, i)`` -> word i of x at a place of ``stage``.
    run
        How many places along w, from a multiple of as many, are neighbours in x, and all in the
        image or none; k is faster if 0.
    strides
        Places along w from one column of y to the next, and from one tap to the next.
    source
        ``(p, k)`` -> the place in ``stage``.
    y
        ``(p, c)`` -> the index in y.
    keep
        ``(p, c)`` -> conditions without which there is no such output.
    r
        The index in r, where that is not y's.
    slices
        How many sums, each over channel blocks of its own, make one output.
    """

    template: str
    buffers: dict[str, tuple[Any, str]]
    spatial: Index
    reduction: Index
    staged: Index
    inside: Callable[[Index], list[Expr]]
    x: Callable[[dict[str, Any], Index, Expr], Expr]
    source: Callable[[Index, Index], Index]
    y: Callable[[Index, Expr], Index]
    keep: Callable[[Index, Expr], list[Expr]]
    run: int = 1
    strides: tuple[int, int] = (1, 1)
    r: Callable[[Index, Expr], Index] | None = None
    slices: int = 1


def contraction_kernel(spec: Conv2d | Dense, parts: Contraction) -> tirx.PrimFunc:
    """Return the unscheduled PrimFunc."""
    with prim_func(estimated_flops=_flops(parts)) as builder:
        buffers = declare_arguments(parts.buffers)
        with T.sblock("root"):
            stage = _emit_stage(spec, parts, buffers)
            acc = _emit_dot(spec, parts, stage, buffers["w"])
            if parts.slices > 1:
                acc = _emit_combine(spec, parts, acc)
            values = _emit_requantize(spec, parts, acc, buffers)
            _emit_write(parts, values, buffers["y"])
    return for_cuda(builder.get())


def _flops(parts: Contraction) -> int:
    extents = (*parts.spatial, *parts.reduction)
    return 2 * LANES * LANES * prod(size for size in extents if isinstance(size, int))


def _emit_stage(spec: Conv2d | Dense, parts: Contraction, buffers: dict[str, Any]) -> Any:
    step = step_of(spec)
    extents = int64((*parts.staged, step.words))
    stage = allocate("staged", extents, step.word)
    with T.grid(*extents) as loops, T.sblock(STAGE):
        *place, i = axes("n k h w i", extents, loops)
        T.reads(*(whole(buffers[name]) for name in ("x", "z") if name in buffers))
        T.writes(stage[(*place, i)])
        z = buffers["z"][0] if "z" in buffers else tirx.const(0, "float32")
        x = parts.x(buffers, place, i)
        T.buffer_store(stage, where(parts.inside(place), x, step.fill(z)), [*place, i])
    return stage


def _emit_dot(spec: Conv2d | Dense, parts: Contraction, stage: Any, w: Any) -> Any:
    """Return the sums; in slices, their parts."""
    step, slices = step_of(spec), parts.slices
    spatial, (blocks, *window) = int64((*parts.spatial, LANES)), parts.reduction
    reduction = int64((blocks // slices, *window, step.words))
    names, extents = ("s n f h w c", int64((slices, *spatial))) if slices > 1 else (NAMES, spatial)
    acc = allocate("acc", extents, step.acc, "shared" if slices > 1 else "local")
    with T.grid(*extents, *reduction) as loops, T.sblock(DOT):
        index = axes(names, extents, loops[: len(extents)])
        *p, c = index[-5:]
        k_o, *rest, i = axes("k kh kw i", reduction, loops[len(extents) :], reduce=True)
        k = [k_o * slices + index[0] if slices > 1 else k_o, *rest]
        source, weight = tuple(parts.source(p, k)), (p[1], *k, c)
        T.reads(stage[(*source, i)], w[(*weight, slice(0, LANES))])
        T.writes(acc[tuple(index)])
        T.sblock_attr(
            {"template": parts.template, RUN: T.int64(parts.run), STRIDES: int64(parts.strides)}
        )
        with T.init():
            T.buffer_store(acc, tirx.const(0, step.acc), index)
        weights = step.load_w(w, (*weight, T.int64(0)), i)
        T.buffer_store(acc, step.step(acc[tuple(index)], stage[(*source, i)], weights), index)
    return acc


def _emit_combine(spec: Conv2d | Dense, parts: Contraction, part: Any) -> Any:
    """Return the sums of all slices."""
    spatial, step = int64((*parts.spatial, LANES)), step_of(spec)
    acc = allocate("total", spatial, step.acc, "local")
    with T.grid(*spatial, T.int64(parts.slices)) as loops, T.sblock(COMBINE):
        p = axes(NAMES, spatial, loops[:-1])
        (s,) = axes("s", [T.int64(parts.slices)], loops[-1:], reduce=True)
        T.reads(part[(s, *p)])
        T.writes(acc[tuple(p)])
        with T.init():
            T.buffer_store(acc, tirx.const(0, step.acc), p)
        T.buffer_store(acc, acc[tuple(p)] + part[(s, *p)], p)
    return acc


def _emit_requantize(
    spec: Conv2d | Dense, parts: Contraction, acc: Any, buffers: dict[str, Any]
) -> Any:
    spatial = int64((*parts.spatial, LANES))
    values = allocate("values", spatial, spec.y, "local")
    with T.grid(*spatial) as loops, T.sblock(REQUANTIZE):
        *p, c = axes(NAMES, spatial, loops)
        read = [buffers[name] for name in buffers if name not in ("x", "w", "y")]
        T.reads(acc[(*p, c)], *(whole(buffer) for buffer in read))
        T.writes(values[(*p, c)])

        def _load(name: str, element: int | None = None) -> Expr:
            return buffers[name][p[1], c] if element is None else buffers[name][element]

        r = None
        if "r" in buffers:
            zero = tirx.const(0, spec.dtype("r"))
            index = (parts.r or parts.y)(p, c)
            r = where(parts.keep(p, c), buffers["r"][tuple(index)], zero)
        y = epilogue(spec, acc[(*p, c)] + _load("bias"), _load, r)
        T.buffer_store(values, _clear_tail(spec, p[1], c, y), [*p, c])
    return values


def _clear_tail(spec: Conv2d | Dense, f: Expr, c: Expr, y: Expr) -> Expr:
    """Put zero into float lanes past the last channel: what x has there may be NaN."""
    channels = spec.n if isinstance(spec, Dense) else spec.out_channels
    if spec.y != "float32" or channels % LANES == 0:
        return y
    return tirx.Select(f * LANES + c < channels, y, tirx.const(0, "float32"))


def _emit_write(parts: Contraction, values: Any, y: Any) -> None:
    spatial = int64((*parts.spatial, LANES))
    with T.grid(*spatial) as loops, T.sblock(WRITE):
        *p, c = axes(NAMES, spatial, loops)
        index = parts.y(p, c)
        T.reads(values[(*p, c)])
        T.writes(y[tuple(index)])
        keep = parts.keep(p, c)
        if keep:
            with T.If(tirx.all(*keep)), T.Then():
                T.buffer_store(y, values[(*p, c)], index)
        else:
            T.buffer_store(y, values[(*p, c)], index)


def where(conditions: list[Expr], value: Expr, otherwise: Expr) -> Expr:
    """Return ``value`` where all conditions hold; it is not evaluated elsewhere."""
    return tirx.if_then_else(tirx.all(*conditions), value, otherwise) if conditions else value


def channel_blocks(values: np.ndarray, blocks: int) -> np.ndarray:
    """Return ``values`` (channels, ...) as (blocks, 4, ...), zero past the last channel."""
    rest = values.shape[1:]
    padded = np.pad(values, [(0, blocks * LANES - len(values)), *((0, 0) for _ in rest)])
    return padded.reshape(blocks, LANES, *rest)
