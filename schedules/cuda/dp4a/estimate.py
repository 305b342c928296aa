"""How long a dp4a kernel takes with some tiles, by its instructions and bytes: unmeasured.

A multiprocessor runs its blocks a few at a time, which take

    issue       instructions of all warps / four a cycle, of which a dp4a may take two
    fetch       bytes that its blocks fetch / its share of the second-level cache
    latency     of a fetch, one after the other in a block, side by side in those that it holds

These overlap, the less the more alike they are: together they are the root of their squares' sum.

Instructions are those that NVIDIA's compiler makes of ``schedules.cuda.dp4a.loops``, counted in
listings of machine code: estimates of most of ResNet-50's kernels are within a tenth of them.
"""

from __future__ import annotations

from math import hypot, prod

from schedules.cuda.device.gpus import KIB, GpuFigures
from schedules.cuda.dp4a.intrin import LANES
from schedules.cuda.dp4a.splits import (
    SUM_BYTES,
    WARP,
    Extents,
    Split,
    Window,
    covered,
)
from schedules.spec import Conv2d, Dense

ISSUE_WIDTH = 4  # instructions a cycle, one of each scheduler
ACCESS, BORDER_ACCESS = 7, 26  # instructions that fetch words of x; that may be border
WEIGHT_ACCESS = 8  # instructions that fetch 16 bytes of weights
STEP = 8  # instructions of a fetch beside its accesses
TURN = 5  # instructions that turn the loop over words of channels
PART_TURN = 2  # the same for each word, where the loop is unrolled in part
FEW_TURNS = 8  # words whose loop is unrolled whole
PRAGMA = 128  # most dp4a of a step whose loops TVM unrolls
SHORT = 576  # most dp4a of unrolled code in which the compiler shares reads among taps
UNROLLED = 1024  # dp4a of a step from which on the compiler keeps the loop
START = 60  # instructions of a thread in front of the loops
END = 7  # instructions of a result
DIVIDED_END = 30  # instructions of a result whose column takes a division
PART = 2  # instructions that store a sum of a slice
FETCH_CYCLES = 400  # of a fetch, with two barriers
BUFFERS = 2  # of a fetch: one is read while the other is filled
PADDED = 8  # words more of an array's row, so that the next begins in other banks
REGISTERS, OTHER_REGISTERS = 65536, 40  # of a multiprocessor; of a thread beside its sums
VECTOR = 4  # words of the widest load


def estimated_cycles(
    extents: Extents, spec: Conv2d | Dense, split: Split, window: Window, gpu: GpuFigures
) -> float:
    """Return the cycles of the busiest multiprocessor."""
    blocks = _blocks(extents, split, gpu)
    steps = extents.taps // prod(window)
    fetch = steps * _bytes(extents, spec, split, window) / gpu.cached
    waves = -(-blocks // _resident(extents, spec, split, window, gpu))
    issue = issue_cycles(extents, spec, split, window, gpu)
    return hypot(issue, blocks * fetch, waves * steps * FETCH_CYCLES)


def issue_cycles(
    extents: Extents, spec: Conv2d | Dense, split: Split, window: Window, gpu: GpuFigures
) -> float:
    """Return the cycles in which the busiest multiprocessor starts its instructions."""
    warps = -(-prod(split.threads) * extents.slices // WARP)
    steps = extents.taps // prod(window)
    products = split.sums * prod(window)
    step = products + _loads(extents, spec, split, window) + _fetches(extents, spec, split, window)
    instructions = START + steps * step + _ends(extents, split)
    of_dp4a = ISSUE_WIDTH * WARP / gpu.dp4a
    issue = warps * max(instructions, steps * products * of_dp4a) / ISSUE_WIDTH
    return _blocks(extents, split, gpu) * issue


def least_issue_cycles(extents: Extents, split: Split, gpu: GpuFigures) -> float:
    """Return what ``issue_cycles`` are not less than, whatever part of the window a fetch has.

    Those of its products and results alone, which do not depend on that part.
    """
    warps = -(-prod(split.threads) * extents.slices // WARP)
    products = extents.taps * split.sums
    instructions = START + products + _ends(extents, split)
    issue = warps * max(instructions, products * (ISSUE_WIDTH * WARP / gpu.dp4a)) / ISSUE_WIDTH
    return _blocks(extents, split, gpu) * issue


def _ends(extents: Extents, split: Split) -> int:
    """Return the instructions of a thread behind its sums."""
    if extents.slices == 1:
        return END * split.sums
    threads = prod(split.threads) * extents.slices
    end = END if threads % split.tile[2] == 0 else DIVIDED_END
    return PART * split.sums + end * split.sums // extents.slices


def _blocks(extents: Extents, split: Split, gpu: GpuFigures) -> int:
    """Return the blocks of the busiest multiprocessor."""
    return -(-extents.words // prod(split.tile) // gpu.cores)


def shared_bytes(extents: Extents, spec: Conv2d | Dense, split: Split, window: Window) -> int:
    """Return the most bytes of shared memory of a block: its fetches, and sums of slices."""
    words, buffers = window[0] * extents.slices, min(BUFFERS, extents.taps // prod(window))
    threads = prod(split.threads) * extents.slices
    f, h, w = split.tile
    rows, cols = covered(spec, (h, w), window[1:])
    run = extents.words_an_access(w)
    margin = VECTOR if extents.kh * extents.kw > 1 else 0  # whole runs of columns
    x = _array_words(words * (f // extents.readers(f)), rows * (cols + margin), threads * run)
    weights = _array_words(f, words * window[1] * window[2] * LANES, threads * LANES)
    parts = prod(split.tile) * extents.slices * LANES * SUM_BYTES * (extents.slices > 1)
    return buffers * LANES * (x + weights * split.shares_weights) + parts


def _array_words(rows: int, row: int, at_once: int) -> int:
    """Return the most words of a shared array, which has room for all threads' last accesses."""
    filled = -(-rows * row // at_once) * at_once
    return -(-filled // row) * (row + PADDED)


def _loads(extents: Extents, spec: Conv2d | Dense, split: Split, window: Window) -> int:
    """Return the instructions of a thread that read x and w of a step, and turn its loops.

    Of short code NVIDIA's compiler reads a word of x once for all taps.
    """
    (k, kh, kw), (f, h, w) = window, split.own
    dp4a = split.sums * prod(window)
    is_loop = dp4a >= UNROLLED
    rows, words = h * kh, w * kw
    if dp4a <= PRAGMA or (f == 1 and split.sums * kh * kw <= (SHORT if is_loop else SHORT // 2)):
        rows, words = map(min, (rows, words), covered(spec, (h, w), (kh, kw)))
    if extents.stride == 1:
        steps = extents.taps // prod(window)
        words -= w - -(-w // _words_a_read(split, dp4a, steps))
    turn = TURN if is_loop else PART_TURN if k > FEW_TURNS else 0
    return k * (kh * kw * f + rows * words + turn)


def _words_a_read(split: Split, dp4a: int, steps: int) -> int:
    """Return how many of a thread's neighbouring words of x it reads at once.

    They must begin at a multiple of as many, and the compiler must see that: it does in code that
    TVM has unrolled, where threads are told apart by bits, and where each step has a buffer.
    """
    w, threads = split.own[2], split.threads[2]
    if w % VECTOR == 0:
        is_seen = dp4a <= PRAGMA or threads & (threads - 1) == 0 or steps <= BUFFERS
        return VECTOR if is_seen else 1
    if threads > 1 or dp4a > SHORT:
        return 1
    return VECTOR if dp4a <= PRAGMA else VECTOR // 2


def _fetches(extents: Extents, spec: Conv2d | Dense, split: Split, window: Window) -> int:
    """Return the instructions of a thread that fetch a step."""
    has_border = isinstance(spec, Conv2d) and any(spec.padding)
    threads = prod(split.threads) * extents.slices
    words = window[0] * extents.slices
    of_x = -(-_accesses(extents, spec, split, window) * words // threads)
    of_w = -(-split.tile[0] * window[1] * window[2] * words // threads) * split.shares_weights
    return of_x * (BORDER_ACCESS if has_border else ACCESS) + of_w * WEIGHT_ACCESS + STEP


def _accesses(extents: Extents, spec: Conv2d | Dense, split: Split, window: Window) -> int:
    """Return the accesses that fetch one word of channels of x."""
    f, h, w = split.tile
    rows, cols = covered(spec, (h, w), window[1:])
    run = extents.words_an_access(w) if window[2] == extents.kw else 1
    return f // extents.readers(f) * rows * -(-(cols + run - 1) // run)


def _bytes(extents: Extents, spec: Conv2d | Dense, split: Split, window: Window) -> int:
    """Return the bytes that a block fetches in a step."""
    f, h, w = split.tile
    words = window[0] * extents.slices
    x = prod(covered(spec, (h, w), window[1:])) * (f // extents.readers(f))
    return LANES * words * (x + f * window[1] * window[2] * LANES)


def _resident(
    extents: Extents, spec: Conv2d | Dense, split: Split, window: Window, gpu: GpuFigures
) -> int:
    """Return the blocks that a multiprocessor holds at a time."""
    threads = prod(split.threads) * extents.slices
    shared = shared_bytes(extents, spec, split, window)
    registers = threads * (split.sums + OTHER_REGISTERS)
    return max(
        1, min(gpu.blocks, gpu.threads // threads, REGISTERS // registers,
               gpu.shared_kib * KIB // shared)
    )  # fmt: skip
