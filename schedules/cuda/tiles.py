"""The loops of convolution and dense on a GPU, by default and sampled: one body, two tile sets.

    blockIdx.z     n
    blockIdx.y     f
    blockIdx.x     h w
    vthread        n f h w     strands of one thread, far apart
    threadIdx.x    n f h w
      k0:          channel blocks, rows, columns of the window, in any order
        x -> shared, w -> shared     by all threads together, 4 and 16 bytes each
        k1:        the same axes, inside one fetch
          w -> registers             16 bytes each
          f h w c  accumulators in registers
            dp4a
      requantize, write    4 bytes of y each

With ``pipeline`` the fetch of the next k0 overlaps with the sums of this one, in twice the shared
memory: ``double_buffer_scope`` alone would do nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import ExprRV, LoopRV, SBlockRV

from schedules.cuda.contraction import DOT, REQUANTIZE, STAGE, WRITE

Split = Sequence[int | ExprRV | None]
ORDERS = tuple(permutations(range(3)))
PIPELINES: dict[int, list[int] | None] = {0: None, 1: [0, 0, 1], 2: [0, 1, 1]}
"""Nothing, x and w, or x alone double-buffered -> stages of fetching x, fetching w, summing."""
ABOVE = 5  # loops of the grid, the strands and the threads


@dataclass(frozen=True, kw_only=True)
class Tiles:
    """Four-way splits (block, vthread, thread, register) and two-way ones (outer, inner).

    ``n`` is None where the batch is symbolic: it is not tiled. ``order`` is a permutation of the
    reduction's axes, ``pipeline`` a key of ``PIPELINES``, ``unroll`` the most steps unrolled.
    """

    n: Split | None
    f: Split
    h: Split
    w: Split
    k: Split
    kh: Split
    kw: Split
    order: tuple[int, ...] = (0, 1, 2)
    pipeline: int = 1
    unroll: int | ExprRV = 128

    @property
    def threads(self) -> list[int | ExprRV | None]:
        """Return the threads of a block, by axis."""
        splits = (self.n, self.f, self.h, self.w)
        return [split[2] for split in splits if split is not None]


def apply(sch: Schedule, tiles: Tiles) -> None:
    """Tile, stage, pipeline."""
    dot, write = sch.get_sblock(DOT), sch.get_sblock(WRITE)
    x_shared = sch.cache_read(dot, 0, "shared")
    w_shared = sch.cache_read(dot, 1, "shared")
    w_registers = sch.cache_read(dot, 1, "local")
    sch.compute_inline(sch.get_sblock(STAGE))
    thread = _bind(sch, write, tiles)
    sch.compute_at(sch.get_sblock(REQUANTIZE), thread, preserve_unit_loops=True)
    sch.compute_at(dot, thread, preserve_unit_loops=True)

    tile, axes = sch.get_loops(dot)[ABOVE:-4], sch.get_loops(dot)[-4:]
    splits = [
        sch.split(axis, list(factors))
        for axis, factors in zip(axes[:3], (tiles.k, tiles.kh, tiles.kw), strict=True)
    ]
    outer, inner = ([splits[axis][level] for axis in tiles.order] for level in (0, 1))
    sch.reorder(*outer, *inner, *tile, axes[3])
    fetch = sch.fuse(*outer)
    packed = int(sch.get(axes[3]).extent) == 1  # four channels to a word

    # 16 bytes of weights at a time, int8 or float32; 4 channels of x, whose border is by pixel.
    wide = 2 if packed else 1
    sch.compute_at(w_registers, inner[-1], preserve_unit_loops=True)
    sch.vectorize(sch.fuse(*sch.get_loops(w_registers)[-wide:]))
    for block, vector in ((x_shared, 1), (w_shared, wide)):
        sch.compute_at(block, fetch, preserve_unit_loops=True)
        _cooperate(sch, sch.get_loops(block)[ABOVE + 1 :], tiles.threads, vector)
    sch.decompose_reduction(dot, fetch)
    stages = PIPELINES[tiles.pipeline]
    if stages and int(sch.get(fetch).extent) > 1:
        sch.annotate(fetch, "software_pipeline_stage", stages)
        sch.annotate(fetch, "software_pipeline_order", [0, 1, 2])
    sch.annotate(sch.get_loops(write)[0], "pragma_auto_unroll_max_step", tiles.unroll)
    sch.annotate(sch.get_loops(write)[0], "pragma_unroll_explicit", 0)


def _bind(sch: Schedule, write: SBlockRV, tiles: Tiles) -> LoopRV:
    """Split the loops of y and give them to the grid; return the loop over threads."""
    n, f, h, w, c = sch.get_loops(write)
    axes = [(f, tiles.f), (h, tiles.h), (w, tiles.w)]
    batch = [[n]] if tiles.n is None else [sch.split(n, list(tiles.n))]
    splits = [*batch, *(sch.split(axis, list(factors)) for axis, factors in axes)]
    levels = [[split[level] for split in splits if level < len(split)] for level in range(4)]
    sch.reorder(*(loop for level in levels for loop in level), c)
    image, virtual = sch.fuse(*levels[0][2:]), sch.fuse(*levels[1])
    thread = sch.fuse(*levels[2])
    grid = ("blockIdx.z", "blockIdx.y", "blockIdx.x", "vthread.x", "threadIdx.x")
    for loop, axis in zip((*levels[0][:2], image, virtual, thread), grid, strict=True):
        sch.bind(loop, axis)
    sch.vectorize(c)
    return thread


def _cooperate(sch: Schedule, loops: Sequence[LoopRV], threads: Sequence[Any], vector: int) -> None:
    """Share out a fetch to all threads of a block, the last ``vector`` axes at once."""
    _, *thread = sch.split(sch.fuse(*loops[:-vector]), [None, *threads])
    sch.bind(sch.fuse(*thread), "threadIdx.x")
    sch.vectorize(sch.fuse(*loops[-vector:]))


def sampled(sch: Schedule) -> Tiles:
    """Return tiles that MetaSchedule samples: all that AutoTVM's int8 template had, and more."""
    n, f, h, w, _c = sch.get_loops(sch.get_sblock(WRITE))
    k, kh, kw, _i = sch.get_loops(sch.get_sblock(DOT))[-4:]

    def choose(candidates: Sequence[int]) -> ExprRV:
        return sch.sample_categorical(list(candidates), [1 / len(candidates)] * len(candidates))

    is_static = isinstance(sch.get(n).extent, tirx.IntImm)
    return Tiles(
        n=sch.sample_perfect_tile(n, 4, max_innermost_factor=4) if is_static else None,
        f=sch.sample_perfect_tile(f, 4, max_innermost_factor=16),
        h=sch.sample_perfect_tile(h, 4, max_innermost_factor=16),
        w=sch.sample_perfect_tile(w, 4, max_innermost_factor=16),
        k=sch.sample_perfect_tile(k, 2, max_innermost_factor=64),
        kh=sch.sample_perfect_tile(kh, 2, max_innermost_factor=16),
        kw=sch.sample_perfect_tile(kw, 2, max_innermost_factor=16),
        order=ORDERS[int(sch.get(choose(range(len(ORDERS)))))],
        pipeline=int(sch.get(choose(tuple(PIPELINES)))),
        unroll=choose((0, 64, 512, 1500)),
    )
