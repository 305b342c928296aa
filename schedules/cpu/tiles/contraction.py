"""The kernel that convolution and dense share: accumulators of 16 output channels, in registers.

Two blocks over (n, o, h, w), where o counts blocks of 16 channels:

    "dot"    acc[n, o, h, w] = bias, then one step of the instruction per reduction index
    "store"  the epilogue, and y

An accumulator is one element of vector type, so that loops around it tile, unroll and skip it like
a scalar, whether tiles divide the image or not. Its buffer is "global": TVM puts that on the stack
where it is small, and LLVM into registers; a "local" one it would fetch from a pool, once a task.
See ``schedules.cpu.tiles.register_tiles`` for the loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import int64
from schedules.bodies.buffers import allocate, declare_arguments, ramp, whole
from schedules.bodies.epilogue import epilogue
from schedules.bodies.prim_func import axes, prim_func
from schedules.cpu.dot import LANES, Dot
from schedules.cpu.tiles.conv_arguments import clear_tail
from schedules.spec import Conv2d, Dense

DOT = "dot"
STORE = "store"
Index = Sequence[Expr]


@dataclass(frozen=True, kw_only=True)
class ContractionKernel:
    """What one kernel reads, at output position p = (n, o, h, w) and reduction index k.

    Parameters
    ----------
    template
        The template's name.
    buffers
        Name -> (shape, dtype) of each argument, in order.
    spatial
        Extents of n, o, h, w.
    reduction
        Extents of k.
    guards
        ``(p, k)`` -> conditions without which the step is skipped, outermost first.
    x
        ``(buffers, p, k)`` -> the elements of x of one step.
    w
        ``(p, k)`` -> the index of their weights.
    bias
        ``p`` -> the index of the bias.
    y
        ``p`` -> the index of the 16 lanes in y, and in r.
    keep
        ``p`` -> whether there is such an output; None if always.
    store
        Stores lanes in y its own way: ``(buffer, p, lanes)``; None for a store of 16.
    stage
        Emits a block that copies x, and returns the buffer it fills; None to read x in place.
    staged
        ``(p, k)`` -> the region of that buffer that a step reads.
    """

    template: str
    buffers: dict[str, tuple[Sequence[Any], str]]
    spatial: Sequence[Any]
    reduction: Sequence[int]
    guards: Callable[[Index, Index], list[list[Expr]]]
    x: Callable[[dict[str, Any], Index, Index], Expr]
    w: Callable[[Index, Index], Index]
    bias: Callable[[Index], Index]
    y: Callable[[Index], Index]
    keep: Callable[[Index], Expr] | None = None
    store: Callable[[Any, Index, Expr], None] | None = None
    stage: Callable[[dict[str, Any]], Any] | None = None
    staged: Callable[[Index, Index], Index] | None = None


def contraction_kernel(spec: Conv2d | Dense, dot: Dot, parts: ContractionKernel) -> tirx.PrimFunc:
    """Return the unscheduled PrimFunc."""
    with prim_func(estimated_flops=_flops(dot, parts)) as builder:
        buffers = declare_arguments(parts.buffers)
        with T.sblock("root"):
            source = {**buffers, "x": parts.stage(buffers)} if parts.stage else buffers
            acc = _accumulate(dot, parts, source)
            _store(spec, dot, parts, buffers, acc)
    return builder.get()


def _flops(dot: Dot, parts: ContractionKernel) -> int:
    """Return the operations of one image; MetaSchedule cannot count those of vectors itself."""
    extents = (*parts.spatial, *parts.reduction)
    return 2 * LANES * dot.width * prod(size for size in extents if isinstance(size, int))


def _accumulate(dot: Dot, parts: ContractionKernel, buffers: dict[str, Any]) -> Any:
    spatial, reduction = int64(parts.spatial), int64(parts.reduction)
    dtype = "float32" if dot.float32 else "int32"
    acc = allocate("acc", spatial, f"{dtype}x{LANES}")
    with T.grid(*spatial, *reduction) as loops, T.sblock(DOT):
        p = axes("n o h w", spatial, loops[:4])
        k = axes("k0 k1 k2 k3"[: 3 * len(reduction) - 1], reduction, loops[4:], reduce=True)
        x = buffers["x"]
        constants = [whole(buffers[name]) for name in ("w", "bias", "z") if name in buffers]
        T.reads(x[tuple(parts.staged(p, k))] if parts.staged else whole(x), *constants)
        T.writes(acc[tuple(p)])
        T.sblock_attr({"template": parts.template})
        with T.init():
            T.buffer_store(acc, buffers["bias"][(*parts.bias(p), ramp(LANES))], p)
        w = buffers["w"][(*parts.w(p, k), ramp(LANES * dot.width))]
        step = dot.step(acc[tuple(p)], parts.x(buffers, p, k), w)
        _guarded(parts.guards(p, k), lambda: T.buffer_store(acc, step, p))
    return acc


def _guarded(guards: list[list[Expr]], emit: Callable[[], None]) -> None:
    """Emit under nested ifs: TVM hoists each out of the loops it does not depend on."""
    if not guards:
        return emit()
    if not guards[0]:
        return _guarded(guards[1:], emit)
    with T.If(tirx.all(*guards[0])), T.Then():
        _guarded(guards[1:], emit)
    return None


def _store(
    spec: Conv2d | Dense, dot: Dot, parts: ContractionKernel, buffers: dict[str, Any], acc: Any
) -> None:
    spatial = int64(parts.spatial)
    with T.grid(*spatial) as loops, T.sblock(STORE):
        p = axes("n o h w", spatial, loops)
        read = [name for name in buffers if name not in ("x", "w", "bias", "y")]
        T.reads(acc[tuple(p)], *(whole(buffers[name]) for name in read))
        T.writes(_lanes_of(buffers["y"], parts.y(p)))

        def _load(name: str, element: int | None = None) -> Expr:
            return buffers[name][p[1], ramp(LANES)] if element is None else buffers[name][element]

        r = buffers["r"][tuple(parts.y(p))] if "r" in buffers else None
        y = epilogue(spec, acc[tuple(p)], _load, r)
        if isinstance(spec, Conv2d):
            y = clear_tail(spec, p[1], y)
        store = parts.store or _store_lanes(parts)
        _guarded([[parts.keep(p)]] if parts.keep else [], lambda: store(buffers["y"], p, y))


def _store_lanes(parts: ContractionKernel) -> Callable[[Any, Index, Expr], None]:
    return lambda buffer, p, y: T.buffer_store(buffer, y, parts.y(p))


def _lanes_of(buffer: Any, index: Index) -> Any:
    """Return the region of a vector index."""
    *outer, last = index
    return buffer[(*outer, slice(last.base, last.base + last.lanes))]
