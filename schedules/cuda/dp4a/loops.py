"""The loops of convolution and dense on a GPU: one body for every choice of tiles.

    blockIdx.z     n
    blockIdx.y     f
    blockIdx.x     h w
    vthread        n f h w     strands of one thread, far apart
    threadIdx.x    n f h w
      k0:          channel blocks, rows, columns of the window, in any order
        x -> shared, w -> shared     by all threads together, 4 to 16 and 16 bytes each
        k1:        the same axes, inside one fetch
          w -> registers             16 bytes each
          f h w c  accumulators in registers
            dp4a
      requantize, write    4 bytes of y each

With ``pipeline`` the fetch of the next k0 overlaps with the sums of this one, in twice the shared
memory: ``double_buffer_scope`` alone would do nothing. A reduction in slices has threadIdx.x for
the slices, which are neighbours, and threadIdx.y for n f h w; its epilogue has loops of its own:

      k0 k1 ...            as above
      partial sums -> shared
    all threads: element of the block's tile
      combine, requantize, write
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import ExprRV, LoopRV

from schedules.cuda.dp4a.contraction import COMBINE, DOT, REQUANTIZE, RUN, STAGE, WRITE
from schedules.cuda.dp4a.tiles import PIPELINES, Tiles
from schedules.cuda.dp4a.wide_fetch import WIDE, begins_runs, stage_in_runs

WORD = 4  # bytes, the width of a bank of shared memory
WIDEST_WORDS = 4  # words of the widest access
GRID = ("blockIdx.z", "blockIdx.y", "blockIdx.x")
Extent = int | ExprRV | None


def reduction_slices(sch: Schedule) -> int:
    """Return into how many slices the kernel splits its reduction."""
    axes = sch.get(sch.get_sblock(DOT)).iter_vars
    return int(axes[0].dom.extent) if len(axes) > 9 else 1


@dataclass(frozen=True, kw_only=True)
class Threads:
    """The loop over the threads of a block that sum, and how many there are, by axis."""

    loop: LoopRV
    extents: list[Extent]
    slices: int

    def share_out(self, sch: Schedule, loop: LoopRV) -> LoopRV:
        """Give the steps of ``loop`` to all threads in turn; return the innermost loop."""
        slices = [self.slices] if self.slices > 1 else []
        _, *threads = sch.split(loop, [None, *self.extents, *slices])
        count = len(self.extents)
        return bind_threads(sch, threads[:count], threads[count:])


def bind_threads(sch: Schedule, tile: Sequence[LoopRV], slices: Sequence[LoopRV]) -> LoopRV:
    """Bind fused loops over a tile, and those over slices, if any; return the innermost loop."""
    fused = sch.fuse(*tile)
    sch.bind(fused, "threadIdx.y" if slices else "threadIdx.x")
    for loop in slices:
        sch.bind(loop, "threadIdx.x")
    return slices[0] if slices else fused


def apply(sch: Schedule, tiles: Tiles) -> None:
    """Tile, stage, pipeline."""
    dot = sch.get_sblock(DOT)
    slices, run = reduction_slices(sch), int(sch.get(dot).annotations[RUN])
    x_shared = sch.cache_read(dot, 0, "shared")
    w_shared = [sch.cache_read(dot, 1, "shared")] if tiles.w_shared else []
    w_registers = sch.cache_read(dot, 1, "local")
    sch.compute_inline(sch.get_sblock(STAGE))
    threads = _bind_slices(sch, tiles, slices) if slices > 1 else _bind(sch, tiles)
    sch.compute_at(dot, threads.loop, preserve_unit_loops=True)

    above = len(sch.get_loops(dot)) - (10 if slices > 1 else 9)
    tile, axes = sch.get_loops(dot)[above:-4], sch.get_loops(dot)[-4:]
    splits = [
        sch.split(axis, list(factors))
        for axis, factors in zip(axes[:3], (tiles.k, tiles.kh, tiles.kw), strict=True)
    ]
    is_wide = tiles.wide and begins_runs(sch, dot, tiles.w, splits[2])
    outer, inner = ([splits[axis][level] for axis in tiles.order] for level in (0, 1))
    sch.reorder(*outer, *inner, *tile, axes[3])
    fetch = sch.fuse(*outer)

    # 16 bytes of weights at a time, four words or four floats of one.
    wide = 2 if int(sch.get(axes[3]).extent) == 1 else 1
    sch.compute_at(w_registers, inner[-1], preserve_unit_loops=True)
    sch.vectorize(sch.fuse(*sch.get_loops(w_registers)[-wide:]))
    if is_wide:
        stage_in_runs(sch, x_shared, run)
    for block in (x_shared, *w_shared):
        sch.compute_at(block, fetch, preserve_unit_loops=True)
        loops = sch.get_loops(block)[above + 1 :]
        if block is x_shared:
            steps, access = _x_access(sch, loops, run if is_wide or not run else 1)
        else:
            steps, access = loops[:-wide], loops[-wide:]
        threads.share_out(sch, sch.fuse(*steps))
        access_loop = sch.fuse(*access)
        if block is x_shared and is_wide:
            sch.annotate(access_loop, WIDE, run)
        else:
            sch.vectorize(access_loop)
        if tiles.padded:  # eight neighbouring blocks of channels begin in as many groups of banks
            is_x, words = block is x_shared, wide == 2
            axis, width = int(is_x), WIDEST_WORDS * (WORD if words and not is_x else 1)
            sch.storage_align(block, 0, axis, 2 * width, width)
    sch.decompose_reduction(dot, fetch)
    _pipeline(sch, fetch, tiles, len(w_shared))
    root = sch.get_loops(dot)[0]
    sch.annotate(root, "pragma_auto_unroll_max_step", tiles.unroll)
    sch.annotate(root, "pragma_unroll_explicit", 0)


def _x_access(
    sch: Schedule, loops: Sequence[LoopRV], run: int
) -> tuple[list[LoopRV], list[LoopRV]]:
    """Return the loops of a fetch of x in the order of memory, and those that are one access."""
    n, k, h, w, i = loops
    if run == 0:
        sch.reorder(n, h, w, k, i)
        return [n, h, w, k], [i]
    if run > 1:
        w, words = sch.split(w, [None, run])
        return [n, k, h, w], [words, i]
    return [n, k, h, w], [i]


def _pipeline(sch: Schedule, fetch: LoopRV, tiles: Tiles, w_shared: int) -> None:
    """Overlap fetches with sums, where there is more than one."""
    stages = PIPELINES[tiles.pipeline]
    if stages is None or int(sch.get(fetch).extent) == 1:
        return
    kept = stages[: 1 + w_shared]
    if any(stage == 0 for stage in kept):
        sch.annotate(fetch, "software_pipeline_stage", [*kept, 1])
        sch.annotate(fetch, "software_pipeline_order", list(range(len(kept) + 1)))


def _split(sch: Schedule, tiles: Tiles) -> tuple[list[list[LoopRV]], LoopRV]:
    """Split the loops of y, and bind the outermost; return the others by axis, and channels."""
    n, *axes, c = sch.get_loops(sch.get_sblock(WRITE))
    batch = [[n]] if tiles.n is None else [sch.split(n, list(tiles.n))]
    factors = zip(axes, (tiles.f, tiles.h, tiles.w), strict=True)
    splits = [*batch, *(sch.split(axis, list(split)) for axis, split in factors)]
    outer = [split[0] for split in splits]
    sch.reorder(*outer, *(loop for split in splits for loop in split[1:]), c)
    for loop, axis in zip((*outer[:2], sch.fuse(*outer[2:])), GRID, strict=True):
        sch.bind(loop, axis)
    return [list(split[1:]) for split in splits if len(split) > 1], c


def _bind(sch: Schedule, tiles: Tiles) -> Threads:
    """Give y's loops to the grid, threads and registers."""
    splits, c = _split(sch, tiles)
    vthreads, threads, own = ([split[level] for split in splits] for level in range(3))
    sch.reorder(*vthreads, *threads, *own)
    sch.bind(sch.fuse(*vthreads), "vthread.x")
    loop = bind_threads(sch, threads, [])
    sch.vectorize(c)
    sch.compute_at(sch.get_sblock(REQUANTIZE), loop, preserve_unit_loops=True)
    return Threads(loop=loop, extents=tiles.threads, slices=1)


def _bind_slices(sch: Schedule, tiles: Tiles, slices: int) -> Threads:
    """Give the partial sums' loops to threads, then y's, element by element.

    All loops of a kernel would be given to the same vthreads, so here those are registers.
    """
    part, combine = sch.cache_write(sch.get_sblock(DOT), 0, "local"), sch.get_sblock(COMBINE)
    splits, c = _split(sch, tiles)
    own = [loop for split in splits for loop in split]
    for block in (sch.get_sblock(REQUANTIZE), combine):
        sch.compute_at(block, own[-1], preserve_unit_loops=True)
    sch.compute_at(part, sch.get_loops(sch.get_sblock(WRITE))[2], preserve_unit_loops=True)

    s, *axes, channels = sch.get_loops(part)[3:]
    tiled = zip(axes, (tiles.n or (1, 1, 1, 1), tiles.f, tiles.h, tiles.w), strict=True)
    parts = [sch.split(axis, [split[2], split[1], split[3]]) for axis, split in tiled]
    threads_of, *levels = ([split[level] for split in parts] for level in range(3))
    sch.reorder(*threads_of, s, *(loop for level in levels for loop in level))
    loop = bind_threads(sch, threads_of, [s])
    sch.vectorize(channels)

    threads = Threads(loop=loop, extents=tiles.threads, slices=slices)
    threads.share_out(sch, sch.fuse(*own))
    sch.vectorize(c)
    *_, lane, step = sch.get_loops(combine)
    sch.reorder(step, lane)
    sch.decompose_reduction(combine, step)
    return threads
