"""Tiles and switches of a convolution or dense layer by dp4a, and their search space.

For what they mean see ``schedules.cuda.dp4a.loops``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import ExprRV, LoopRV

from schedules.cuda.device.limits import too_many_registers, too_many_threads
from schedules.cuda.dp4a.contraction import DOT, WRITE
from schedules.cuda.dp4a.intrin import LANES

Split = Sequence[int | ExprRV | None]
LOOP_ORDERS = tuple(permutations(range(3)))
PIPELINES: dict[int, tuple[int, int] | None] = {0: None, 1: (0, 0), 2: (0, 1), 3: (1, 0)}
"""Nothing, x and w, x alone, w alone double-buffered -> stages of fetching x and w; sums are 1."""
SWITCH_OPTIONS = (0, 1)
NO_LIMIT = 1 << 20  # no limit of an innermost factor


@dataclass(frozen=True, kw_only=True)
class Tiles:
    """Four-way splits (block, vthread, thread, register) and two-way ones (outer, inner).

    ``n`` is None where the batch is symbolic: it is not tiled. ``order`` is a permutation of the
    reduction's axes, ``pipeline`` a key of ``PIPELINES``, ``unroll`` the most steps unrolled.
    ``w_shared``: w goes through shared memory, or straight into registers. ``padded``: rows of
    shared arrays that neighbouring threads read begin in different banks. ``wide``: up
    to four neighbouring words of x are fetched at once, where tiles are whole runs of them.
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
    w_shared: bool = True
    padded: bool = True
    wide: bool = True

    @property
    def threads(self) -> list[int | ExprRV | None]:
        """Return the threads of a block, by axis."""
        splits = (self.n, self.f, self.h, self.w)
        return [split[2] for split in splits if split is not None]


def crowded(choices: Sequence[Any]) -> str | None:
    """Say why a block cannot hold the four-way splits among ``choices``, or None.

    Only threads and sums are counted, which is enough for most points that are too large.
    """
    splits = [split for split in choices if isinstance(split, tuple) and len(split) == 4]
    threads = math.prod(split[2] for split in splits)
    sums = LANES * math.prod(split[1] * split[3] for split in splits)
    return too_many_threads(threads) or too_many_registers(sums, threads)


def sampled(sch: Schedule) -> Tiles:
    """Return tiles that MetaSchedule samples: all that AutoTVM's int8 templates had, and more."""
    n, f, h, w, _c = sch.get_loops(sch.get_sblock(WRITE))
    k, kh, kw, _i = sch.get_loops(sch.get_sblock(DOT))[-4:]

    def _choose(candidates: Sequence[int]) -> ExprRV:
        return sch.sample_categorical(list(candidates), [1 / len(candidates)] * len(candidates))

    def _chosen(candidates: Sequence[int]) -> int:
        return int(sch.get(_choose(candidates)))

    def _split(loop: LoopRV, ways: int) -> Split:
        factors: Split = sch.sample_perfect_tile(loop, ways, max_innermost_factor=NO_LIMIT)
        return factors

    is_static = isinstance(sch.get(n).extent, tirx.IntImm)
    return Tiles(
        n=_split(n, 4) if is_static else None,
        f=_split(f, 4),
        h=_split(h, 4),
        w=_split(w, 4),
        k=_split(k, 2),
        kh=_split(kh, 2),
        kw=_split(kw, 2),
        order=LOOP_ORDERS[_chosen(range(len(LOOP_ORDERS)))],
        pipeline=_chosen(tuple(PIPELINES)),
        unroll=_choose((0, 64, 512, 1500)),
        w_shared=bool(_chosen(SWITCH_OPTIONS)),
        padded=bool(_chosen(SWITCH_OPTIONS)),
        wide=bool(_chosen(SWITCH_OPTIONS)),
    )
