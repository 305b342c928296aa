"""Measured limits of register tiles on processors: latency, loads of weights and of x.

Costs are counted in multiplications of a vector: on Zen 4 one takes a cycle, on Zen 5 half of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

L1_SHARE = 24 << 10  # bytes of weights that stay in the first cache, beside x


@dataclass(frozen=True, kw_only=True)
class CoreFigures:
    """What limits tiles on a processor, in multiplications of a vector.

    Parameters
    ----------
    latency
        Accumulators that hide the latency of a multiplication.
    weights
        What loading a vector of weights takes: for each number of bytes that a task's weights may
        have (those of the caches), ascending.
    x
        What broadcasting four values of x takes.
    single_use
        What broadcasting them for one multiplication alone costs beside that.
    wait, large_bytes
        What a step waits, over the blocks, where a task has more than ``large_bytes`` of weights.
    unasked
        What it waits there if the tile cannot ask for weights ahead.
    overlapped
        The most accumulators of a tile whose epilogue runs beside the next tile.
    reuse
        Output columns, over the rows of a task, that pay for fetching the weights.
    """

    latency: float
    weights: Mapping[float, float]
    x: float
    single_use: float
    wait: float = 0.0
    unasked: float = 0.0
    large_bytes: float = inf
    overlapped: float
    reuse: int


ZEN4 = CoreFigures(
    latency=4.6,
    weights={L1_SHARE: 1.0, 700 << 10: 2.5, inf: 4.5},
    x=0.5,
    single_use=0.4,
    wait=2.0,
    unasked=1.5,
    large_bytes=256 << 10,
    overlapped=4.6,
    reuse=64,
)
ZEN5 = CoreFigures(
    latency=10,
    weights={L1_SHARE: 1.0, 700 << 10: 3.2, inf: 5.8},
    x=1.0,
    single_use=1.0,
    overlapped=0,
    reuse=256,
)
CORES = {"znver5": ZEN5}
"""By LLVM's name of the processor; all others are taken for Zen 4, until somebody measures."""
