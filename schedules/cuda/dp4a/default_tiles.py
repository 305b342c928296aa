"""Which tiles a convolution or dense layer gets without tuning: a rule from shape and GPU.

Every divisor is tried. A thread multiplies ``f * 4`` channels by ``pixels``: the more of both, the
more dp4a for each word it reads from shared memory, up to 64 accumulators. Against that stands that
every multiprocessor wants several hundred threads, in whole warps and whole waves. Where an
estimate of instructions and bytes finds tiles that take clearly less time, it has its way.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod, sqrt

from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cuda.device.devices import gpu_for
from schedules.cuda.device.gpus import GpuFigures
from schedules.cuda.device.limits import STATIC_BYTES
from schedules.cuda.dp4a.estimate import (
    estimated_cycles,
    issue_cycles,
    least_issue_cycles,
    shared_bytes,
)
from schedules.cuda.dp4a.intrin import LANES
from schedules.cuda.dp4a.splits import (
    WARP,
    Extents,
    Split,
    Window,
    covered,
    largest_window,
    splits,
    windows,
)
from schedules.cuda.dp4a.tiles import Tiles
from schedules.spec import Conv2d, Dense

BUSY_THREADS = 512  # threads a multiprocessor wants at least, to hide the latency of its memories
LEAST_THREADS = 256  # that an estimate relies on to hide it: two warps of each scheduler
ENOUGH = 128  # threads of a block that let it hide latency by itself
LEAST_OF_BLOCK = 96  # threads
CLEAR_GAIN = 0.08  # of the estimated instructions; less is within the estimate's error


def default_tiles(sch: Schedule, spec: Conv2d | Dense, target: Target) -> Tiles:
    """Return fixed tiles."""
    extents = Extents.of(sch, spec)
    split, window = _best(extents, spec, gpu_for(target))
    (f, h, w), own = split.threads, split.own
    k, kh, kw = ((None, inner) for inner in window)
    return Tiles(
        n=(None, 1, 1, 1) if extents.is_static else None,
        f=(None, 1, f, own[0]),
        h=(None, 1, h, own[1]),
        w=(None, 1, w, own[2]),
        k=k,
        kh=kh,
        kw=kw,
        w_shared=split.shares_weights,
    )


@lru_cache(maxsize=1024)  # a kernel is scheduled when a network is lowered, and as a task
def _best(extents: Extents, spec: Conv2d | Dense, gpu: GpuFigures) -> tuple[Split, Window]:
    return best_by_estimate(extents, spec, gpu, best_by_score(extents, spec, gpu))


def best_by_score(extents: Extents, spec: Conv2d | Dense, gpu: GpuFigures) -> tuple[Split, Window]:
    """Return the tiles of the best score; of equals, the widest: a row of pixels is contiguous."""
    split = max(
        splits(extents), key=lambda split: (_score(extents, spec, split, gpu.cores), split.tile[2])
    )
    return split, largest_window(extents, spec, split)


def best_by_estimate(
    extents: Extents, spec: Conv2d | Dense, gpu: GpuFigures, tiles: tuple[Split, Window]
) -> tuple[Split, Window]:
    """Return tiles with clearly fewer instructions that are estimated to take the least time.

    Instructions can be counted in machine code, memory cannot: so they must be fewer. ``tiles``
    stay where there are none, where a word of channels is all that is summed, and of floats, whose
    sums are rounded in the order of fetches.
    """
    if extents.k == 1 or spec.x == "float32":
        return tiles

    def _cycles(candidate: tuple[Split, Window]) -> float:
        return estimated_cycles(extents, spec, *candidate, gpu)

    parts = list(windows(extents))
    most_issued = (1 - CLEAR_GAIN) * issue_cycles(extents, spec, *tiles, gpu)
    candidates = [
        (other, part)
        for other in splits(extents, STATIC_BYTES)
        if extents.words * extents.slices >= prod(other.own) * gpu.cores * LEAST_THREADS
        if prod(other.threads) * extents.slices >= LEAST_OF_BLOCK
        if least_issue_cycles(extents, other, gpu) <= most_issued
        for part in parts
        if shared_bytes(extents, spec, other, part) <= STATIC_BYTES
        if issue_cycles(extents, spec, other, part, gpu) <= most_issued
    ]
    return min([*candidates, tiles], key=_cycles)


def _score(extents: Extents, spec: Conv2d | Dense, split: Split, cores: int) -> float:
    """Estimate the share of the peak: parallelism times what keeps a multiprocessor from it."""
    (f, h, w), (own_f, own_h, own_w) = split.tile, split.own
    threads = f * h * w // (own_f * own_h * own_w) * extents.slices
    blocks = extents.words // (f * h * w)
    pixels, channels = own_h * own_w, extents.readers(own_f) * LANES
    reads = 1 / pixels + 1 / channels  # words of shared memory a dp4a
    # Words of global memory a dp4a; what one costs is half the access, which others share.
    shared = (1 + 1 / extents.words_an_access(w)) / 2
    fetched = 1 / (h * w) + shared * _refetched(extents, spec, split) / (extents.readers(f) * LANES)
    warps = threads / (-(-threads // WARP) * WARP) * sqrt(min(1.0, threads / ENOUGH))
    parallel = min(1.0, blocks * threads / (cores * BUSY_THREADS)) * min(1.0, blocks / cores)
    waves = blocks / (-(-blocks // cores) * cores) if blocks > cores else 1.0
    return warps * parallel * waves / (1 + 2 * reads + 4 * fetched)


def _refetched(extents: Extents, spec: Conv2d | Dense, split: Split) -> float:
    """Return how often a word of x is fetched, where once is with the whole window at a time.

    Looked at where a word of channels is all that is summed, as in depthwise layers and of images:
    there the window's taps are what reuses x. Other layers reuse it for their output channels.
    """
    if extents.k > 1:
        return 1.0
    (_, h, w), (_, kh, kw) = split.tile, largest_window(extents, spec, split)
    fetches = extents.kh * extents.kw / (kh * kw)
    part = prod(covered(spec, (h, w), (kh, kw)))
    return fetches * part / prod(covered(spec, (h, w), (extents.kh, extents.kw)))
