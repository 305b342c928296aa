"""Which tiles a convolution or dense layer gets without tuning: a rule from shape and GPU.

Every divisor is tried. A thread multiplies ``f * 4`` channels by ``pixels``: the more of both, the
more dp4a for each word it reads from shared memory, up to 64 accumulators. Against that stands that
every multiprocessor wants several hundred threads, in whole warps and whole waves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod, sqrt

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cuda.device.devices import gpu_for
from schedules.cuda.dp4a.channel_groups import ChannelGroups
from schedules.cuda.dp4a.contraction import DOT, RUN, STRIDES, WRITE
from schedules.cuda.dp4a.intrin import LANES
from schedules.cuda.dp4a.loops import reduction_slices
from schedules.cuda.dp4a.tiles import Tiles
from schedules.spec import Conv2d, Dense

WARP = 32
BUSY_THREADS = 512  # threads a multiprocessor wants at least, to hide the latency of its memories
MAX_THREADS = 256
ENOUGH = 128  # threads of a block that let it hide latency by itself
MAX_ACCUMULATORS = 64  # of 255 registers a thread
SUM_BYTES = 4
PARTIAL_BYTES = 24 * 1024  # of the sums of all slices
SHARED_BYTES = 12 * 1024  # of one fetch; two of them, times two blocks, fit the 48 KiB of sm_61


@dataclass(frozen=True, kw_only=True)
class Extents:
    """Extents of y and of the window, as loops have them; n is 1 where it is symbolic.

    ``k`` are the words of x a slice sums, ``outputs`` the words of y of one group. One access
    fetches ``run`` words of x from a multiple of as many; ``stride`` are its columns from one of y
    to the next.
    """

    n: int
    f: int
    h: int
    w: int
    k: int
    kh: int
    kw: int
    is_static: bool
    slices: int
    outputs: int
    run: int
    stride: int

    def words_an_access(self, w: int) -> int:
        """Return the words of x an access fetches, where a block has ``w`` columns of y."""
        return self.run if self.run and (w == self.w or w * self.stride % self.run == 0) else 1

    def readers(self, f: int) -> int:
        """Return how many of ``f`` neighbouring words of y read the same x."""
        return min(f, self.outputs)


@dataclass(frozen=True, kw_only=True)
class Split:
    """How many of f, h, w are the threads of a block, and how many a thread's own."""

    threads: tuple[int, int, int]
    own: tuple[int, int, int]

    @property
    def tile(self) -> tuple[int, int, int]:
        """What a block computes."""
        f, h, w = (a * b for a, b in zip(self.threads, self.own, strict=True))
        return f, h, w


def default_tiles(sch: Schedule, spec: Conv2d | Dense, target: Target) -> Tiles:
    """Return fixed tiles."""
    extents = _extents(sch, spec)
    cores = gpu_for(target).cores
    # Of equals, the widest: a row of pixels is contiguous.
    best = max(
        _splits(extents), key=lambda split: (_score(extents, spec, split, cores), split.tile[2])
    )
    (f, h, w), own = best.threads, best.own
    window = _window(extents, spec, best)
    k, kh, kw = ((None, inner) for inner in window)
    return Tiles(
        n=(None, 1, 1, 1) if extents.is_static else None,
        f=(None, 1, f, own[0]),
        h=(None, 1, h, own[1]),
        w=(None, 1, w, own[2]),
        k=k,
        kh=kh,
        kw=kw,
        w_shared=h * w > 1,
    )


def _extents(sch: Schedule, spec: Conv2d | Dense) -> Extents:
    write = sch.get_loops(sch.get_sblock(WRITE))[:4]
    reduction = sch.get_loops(sch.get_sblock(DOT))[-4:-1]
    sizes = [sch.get(loop).extent for loop in (*write, *reduction)]
    notes = sch.get(sch.get_sblock(DOT)).annotations
    is_static = isinstance(sizes[0], tirx.IntImm)
    n, f, h, w, k, kh, kw = (int(size) if isinstance(size, tirx.IntImm) else 1 for size in sizes)
    outputs = ChannelGroups.of(spec).outputs if isinstance(spec, Conv2d) else f
    return Extents(
        n=n,
        f=f,
        h=h,
        w=w,
        k=k,
        kh=kh,
        kw=kw,
        is_static=is_static,
        slices=reduction_slices(sch),
        outputs=outputs,
        run=int(notes[RUN]),
        stride=int(notes[STRIDES][0]),
    )


def _splits(extents: Extents) -> Iterator[Split]:
    sizes = (extents.f, extents.h, extents.w)
    for own in product(*map(_divisors, sizes, (4, 2, 8))):
        if prod(own) * LANES > MAX_ACCUMULATORS:
            continue
        rest = [size // part for size, part in zip(sizes, own, strict=True)]
        for threads in product(*map(_divisors, rest, (32, 16, 64))):
            split = Split(threads=threads, own=own)  # type: ignore[arg-type]
            if prod(threads) * extents.slices <= MAX_THREADS and _fits(extents, split):
                yield split


def _fits(extents: Extents, split: Split) -> bool:
    """Whether a tile holds whole groups, or lies in one, and its partial sums fit."""
    f, outputs = split.tile[0], extents.outputs
    parts = prod(split.tile) * extents.slices * LANES * SUM_BYTES
    return (f % outputs == 0 or outputs % f == 0) and (
        extents.slices == 1 or parts <= PARTIAL_BYTES
    )


def _score(extents: Extents, spec: Conv2d | Dense, split: Split, cores: int) -> float:
    """Estimate the share of the peak: parallelism times what keeps a multiprocessor from it."""
    (f, h, w), (own_f, own_h, own_w) = split.tile, split.own
    threads = f * h * w // (own_f * own_h * own_w) * extents.slices
    blocks = extents.n * extents.f * extents.h * extents.w // (f * h * w)
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
    (_, h, w), (_, kh, kw) = split.tile, _window(extents, spec, split)
    fetches = extents.kh * extents.kw / (kh * kw)
    part = prod(_covered(spec, (h, w), (kh, kw)))
    return fetches * part / prod(_covered(spec, (h, w), (extents.kh, extents.kw)))


def _covered(
    spec: Conv2d | Dense, tile: tuple[int, int], window: tuple[int, int]
) -> tuple[int, int]:
    """Return the rows and columns of x that a part of the window reads for a tile of y."""
    if isinstance(spec, Dense):
        return tile
    rows, cols = (
        (extent - 1) * stride + (taps - 1) * step + 1
        for extent, stride, taps, step in zip(
            tile, spec.strides, window, spec.dilation, strict=True
        )
    )
    return rows, cols


def _window(extents: Extents, spec: Conv2d | Dense, split: Split) -> tuple[int, int, int]:
    """Return the part of the reduction that is fetched at a time: the most that fits."""
    size = 4 if spec.x == "float32" else 1
    f, h, w = split.tile

    def _shared(k: int, kh: int, kw: int) -> int:
        rows, cols = _covered(spec, (h, w), (kh, kw))
        groups = f // extents.readers(f)
        weights = f * kh * kw * LANES if h * w > 1 else 0
        words = rows * cols * groups + weights
        return size * k * extents.slices * LANES * words

    candidates = [
        (k, kh, kw)
        for k in _divisors(extents.k, 64)
        for kh in _divisors(extents.kh, extents.kh)
        for kw in _divisors(extents.kw, extents.kw)
        if _shared(k, kh, kw) <= SHARED_BYTES
    ]
    return max(candidates, key=lambda c: (c[0] * c[1] * c[2], c[2], c[1]), default=(1, 1, 1))


def _divisors(number: int, limit: int) -> list[int]:
    return [d for d in range(1, min(number, limit) + 1) if number % d == 0]
