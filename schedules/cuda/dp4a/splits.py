"""How the loops of a dp4a kernel may be shared out to blocks, threads and fetches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import prod

from tvm import tirx
from tvm.s_tir import Schedule

from schedules.cuda.dp4a.channel_groups import ChannelGroups
from schedules.cuda.dp4a.contraction import DOT, RUN, STRIDES, WRITE
from schedules.cuda.dp4a.intrin import LANES
from schedules.cuda.dp4a.loops import reduction_slices
from schedules.spec import Conv2d, Dense

WARP = 32
MAX_THREADS = 256
MAX_ACCUMULATORS = 64  # of 255 registers a thread
SUM_BYTES = 4
PARTIAL_BYTES = 24 * 1024  # of the sums of all slices
SHARED_BYTES = 12 * 1024  # of one fetch; two of them, times two blocks, fit the 48 KiB of sm_61
Window = tuple[int, int, int]
"""Words of channels that a slice sums, rows and columns of the window: the part of a fetch."""


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

    @classmethod
    def of(cls, sch: Schedule, spec: Conv2d | Dense) -> Extents:
        """Return those of a kernel that is not scheduled."""
        write = sch.get_loops(sch.get_sblock(WRITE))[:4]
        reduction = sch.get_loops(sch.get_sblock(DOT))[-4:-1]
        sizes = [sch.get(loop).extent for loop in (*write, *reduction)]
        notes = sch.get(sch.get_sblock(DOT)).annotations
        n, f, h, w, k, kh, kw = (
            int(size) if isinstance(size, tirx.IntImm) else 1 for size in sizes
        )
        return cls(
            n=n,
            f=f,
            h=h,
            w=w,
            k=k,
            kh=kh,
            kw=kw,
            is_static=isinstance(sizes[0], tirx.IntImm),
            slices=reduction_slices(sch),
            outputs=ChannelGroups.of(spec).outputs if isinstance(spec, Conv2d) else f,
            run=int(notes[RUN]),
            stride=int(notes[STRIDES][0]),
        )

    @property
    def words(self) -> int:
        """Words of y."""
        return self.n * self.f * self.h * self.w

    @property
    def taps(self) -> int:
        """Words of x that a slice sums, for each tap of the window."""
        return self.k * self.kh * self.kw

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

    @cached_property
    def tile(self) -> tuple[int, int, int]:
        """What a block computes."""
        (f, h, w), (own_f, own_h, own_w) = self.threads, self.own
        return f * own_f, h * own_h, w * own_w

    @cached_property
    def sums(self) -> int:
        """Accumulators of a thread."""
        return prod(self.own) * LANES

    @property
    def shares_weights(self) -> bool:
        """Whether several threads read the same weights."""
        return self.threads[1] * self.threads[2] > 1


def splits(extents: Extents, partial_bytes: int = PARTIAL_BYTES) -> Iterator[Split]:
    """Yield all whose threads, sums and partial sums fit a block."""
    sizes = (extents.f, extents.h, extents.w)
    for own in product(*map(divisors, sizes, (4, 2, 8))):
        if prod(own) * LANES > MAX_ACCUMULATORS:
            continue
        rest = [size // part for size, part in zip(sizes, own, strict=True)]
        for threads in product(*map(divisors, rest, (32, 16, 64))):
            split = Split(threads=threads, own=own)  # type: ignore[arg-type]
            is_small = prod(threads) * extents.slices <= MAX_THREADS
            if is_small and _fits(extents, split, partial_bytes):
                yield split


def _fits(extents: Extents, split: Split, partial_bytes: int) -> bool:
    """Whether a tile holds whole groups, or lies in one, and its partial sums fit."""
    f, outputs = split.tile[0], extents.outputs
    parts = prod(split.tile) * extents.slices * LANES * SUM_BYTES
    return (f % outputs == 0 or outputs % f == 0) and (
        extents.slices == 1 or parts <= partial_bytes
    )


def covered(
    spec: Conv2d | Dense, tile: tuple[int, int], window: tuple[int, int]
) -> tuple[int, int]:
    """Return the rows and columns of x that a part of the window reads for a tile of y."""
    if isinstance(spec, Dense):
        return tile
    (h, w), (kh, kw) = tile, window
    (stride_h, stride_w), (step_h, step_w) = spec.strides, spec.dilation
    return (
        (h - 1) * stride_h + (kh - 1) * step_h + 1,
        (w - 1) * stride_w + (kw - 1) * step_w + 1,
    )


def windows(extents: Extents) -> Iterator[Window]:
    """Yield the parts of the reduction that a fetch may have."""
    for k in divisors(extents.k, 64):
        for kh in divisors(extents.kh, extents.kh):
            for kw in divisors(extents.kw, extents.kw):
                yield k, kh, kw


def largest_window(extents: Extents, spec: Conv2d | Dense, split: Split) -> Window:
    """Return the part of the reduction that is fetched at a time: the most that fits."""
    size = 4 if spec.x == "float32" else 1
    f, h, w = split.tile

    def _shared(k: int, kh: int, kw: int) -> int:
        rows, cols = covered(spec, (h, w), (kh, kw))
        groups = f // extents.readers(f)
        weights = f * kh * kw * LANES if h * w > 1 else 0
        words = rows * cols * groups + weights
        return size * k * extents.slices * LANES * words

    fitting = [window for window in windows(extents) if _shared(*window) <= SHARED_BYTES]
    return max(fitting, key=lambda c: (c[0] * c[1] * c[2], c[2], c[1]), default=(1, 1, 1))


@lru_cache(maxsize=1024)
def divisors(number: int, limit: int) -> tuple[int, ...]:
    """Return those of a number up to a limit."""
    return tuple(d for d in range(1, min(number, limit) + 1) if number % d == 0)
