"""How long a tensor-core kernel takes, and the tiles that take the least: by rule, unmeasured.

A block runs its steps one after the other. A step takes as long as the slowest of

    mma         multiply-adds of all blocks that share a multiprocessor / its rate
    shared      bytes that warps read from shared memory / 128 a cycle
    fetch       bytes that blocks fetch / the multiprocessor's share of the second-level cache
    latency     of a fetch / the fetches under way
    issue       instructions of all warps / four a cycle; of one warp, one after the other

Figures are those of ``schedules.cuda.device.gpus``; latencies are round numbers. What is compared
are kernels on one GPU.
"""

from __future__ import annotations

from tvm.target import Target

from schedules.cuda.device.devices import gpu_for
from schedules.cuda.device.gpus import KIB
from schedules.cuda.device.limits import STATIC_BYTES, most_shared_bytes
from schedules.cuda.mma.operands import Gemm
from schedules.cuda.mma.sources import in_one_tap
from schedules.cuda.mma.tiles import WARP, MmaTiles, all_tiles
from schedules.cuda.mma.weights import BLOCK

SHARED_RATE = 128  # bytes a cycle
FETCH_CYCLES = 1000  # of a fetch from the second-level cache that others use too
BARRIER_CYCLES = 40  # of a barrier that no other block fills
COPY, BORDER_COPY, TAP_COPY = 2, 5, 16  # instructions of one copy: its address; whether it is
# border; and, where a fetch has slabs of several taps, which tap it is of
STEP, WINDOW_STEP = 14, 20  # of a step beside them: its loop and stage; its tap
ISSUE_WIDTH = 4  # instructions a cycle, one of each scheduler
WARP_CYCLES = 2  # between instructions of one warp
START_CYCLES = 2000  # launch, first fetch, epilogue
REGISTERS = 65536  # of a multiprocessor
MOST_RESIDENT = 16  # blocks
CLEAR_GAIN = 0.1  # of the estimated time
SYSTEM_BYTES = KIB  # of each block's shared memory, from sm_80 on


def estimated_us(gemm: Gemm, tiles: MmaTiles, target: Target) -> float:
    """Return the time of a kernel with ``tiles``, in microseconds."""
    gpu = gpu_for(target)
    images = gemm.images if isinstance(gemm.images, int) else 1
    columns = gemm.groups * -(-gemm.blocks // tiles.channel_blocks)
    blocks = images * columns * -(-gemm.rows // tiles.pixels)
    registers = tiles.warps * WARP * (tiles.sums + 64)
    resident = (
        min(MOST_RESIDENT, gpu.shared_kib * KIB // tiles.shared_bytes, REGISTERS // registers) or 1
    )
    sharing = min(resident, -(-blocks // gpu.cores))  # blocks on the busiest multiprocessor
    waves = -(-blocks // (gpu.cores * sharing))
    steps = -(-gemm.slabs // tiles.slabs)

    channels, pixels = tiles.channel_blocks * BLOCK, tiles.pixels
    mma = tiles.slabs * BLOCK * channels * pixels / (gpu.mma_peak * gpu.mma_share)
    # Each of four schedulers has a tensor core of its own; fewer warps leave some idle.
    mma *= max(1.0, 4 / (tiles.warps * sharing))
    reads = 1 / (tiles.rows * 16) + 1 / (tiles.blocks * BLOCK)  # of a byte, for one multiply-add
    shared = tiles.slabs * BLOCK * channels * pixels * reads / SHARED_RATE
    fetch = tiles.stage_bytes / gpu.cached
    instructions = _instructions(gemm, tiles)
    issue = tiles.warps * instructions / ISSUE_WIDTH
    work = sharing * max(mma, shared, fetch, issue)
    step = (
        max(work, FETCH_CYCLES / (tiles.stages - 1), WARP_CYCLES * instructions)
        + BARRIER_CYCLES / sharing
    )
    return (START_CYCLES + waves * (steps * step + tiles.warp_slabs * tiles.sums)) / gpu.mhz


def _instructions(gemm: Gemm, tiles: MmaTiles) -> int:
    """Return the instructions of one warp in one step."""
    x, w = tiles.copies
    slab = tiles.rows + 2 * tiles.blocks + 4 * tiles.rows * tiles.blocks
    step = STEP + COPY * w + slab * tiles.slabs // tiles.warp_slabs
    if gemm.taps == (1, 1):
        return step + x * (BORDER_COPY if gemm.has_border else COPY)
    if in_one_tap(gemm, tiles.slabs):
        return step + WINDOW_STEP + x * (BORDER_COPY if gemm.has_border else COPY)
    return step + x * TAP_COPY


def default_tiles(gemm: Gemm, target: Target) -> MmaTiles:
    """Return the tiles that are estimated to take the least time; of equals, the fewest bytes.

    They have more shared memory than a launch has unasked only for a clear gain: larger tiles are
    fewer blocks.
    """

    def _best(most_bytes: int) -> tuple[float, int, MmaTiles]:
        tiles = all_tiles(gemm.rows, gemm.blocks, most_bytes)
        times = ((estimated_us(gemm, one, target), one.shared_bytes, one) for one in tiles)
        return min(times, key=lambda time: time[:2])

    unasked, asked = _best(STATIC_BYTES), _best(_default_bytes(target))
    return asked[2] if asked[0] < (1 - CLEAR_GAIN) * unasked[0] else unasked[2]


def _default_bytes(target: Target) -> int:
    """Return the most shared memory of a default's block: two are to share a multiprocessor."""
    half = gpu_for(target).shared_kib * KIB // 2 - SYSTEM_BYTES
    return max(STATIC_BYTES, min(half, most_shared_bytes(target)))
