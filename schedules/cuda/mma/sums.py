"""The sums of a tensor-core kernel: a pipeline of fetches and products, and where warps meet.

Sums lie in registers as (16 pixels, blocks, 2, 8): of pixels g and g + 8 of each sixteen, and of
each block, a thread has eight channels. See ``schedules.cuda.mma.weights`` for which.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.cuda.mma.copies import Copies, stage
from schedules.cuda.mma.thread import THREAD_CHANNELS, VECTOR_WORDS, WORD, Thread
from schedules.cuda.mma.tiles import CHUNK, MMA_ROWS, SUMS, WARP
from schedules.cuda.mma.weights import BLOCK, SLAB_BYTES
from schedules.cuda.statements import barrier, call, registers, run, unrolled, where

MMAS = 4  # of one slab, 16 pixels and a block
FRAGMENT = 4  # words of x of an mma
MOST_UNROLLED = 400  # mma of all steps; where more are unrolled, NVRTC keeps so much that it spills


def sum_slabs(thread: Thread) -> Any:
    """Emit the products of all slabs, with fetches ahead of them; return the sums."""
    tiles, copies = thread.tiles, Copies.of(thread)
    acc = registers("acc", tiles.sums, "int32")
    x = registers("x_own", tiles.rows * FRAGMENT, "int32")
    w = registers("w_own", tiles.blocks * THREAD_CHANNELS, "int32")
    steps, ahead = -(-thread.gemm.slabs // tiles.slabs), tiles.stages - 1
    _start_sums(thread, acc)
    for step in range(ahead):
        if step < steps:
            copies.begin(T.int32(step))
            copies.end(T.int32(step))
        run("commit_copies")
    products = steps * tiles.slabs // tiles.warp_slabs * tiles.rows * tiles.blocks * MMAS
    kept = {"disable_unroll": True} if products > MOST_UNROLLED else {}
    with T.serial(T.int32(0), T.int32(steps), annotations=kept) as step:
        run(f"wait_copies<{ahead - 1}>")
        barrier()
        _if_ahead(step, steps, ahead, copies.begin)
        run("commit_copies")
        _multiply(thread, step, acc, x, w)
        _if_ahead(step, steps, ahead, copies.end)
    return acc


def _start_sums(thread: Thread, acc: Any) -> None:
    """Emit what puts the bias into the sums of the first warp of a tile, zero into the others'."""
    tiles, gemm, bias = thread.tiles, thread.gemm, thread.buffers["bias"]
    first = thread.first_block + thread.warp_block * tiles.blocks
    start = registers("bias_own", THREAD_CHANNELS, "int32")
    with unrolled(tiles.blocks) as n:
        has_bias = [thread.warp_slab < 1] if tiles.warp_slabs > 1 else []
        if gemm.blocks % tiles.channel_blocks:
            has_bias = [*has_bias, first + n < gemm.blocks]
        if has_bias:
            with unrolled(THREAD_CHANNELS) as i:
                T.buffer_store(start, tirx.const(0, "int32"), [i])
        with (
            where(has_bias),
            unrolled(THREAD_CHANNELS // VECTOR_WORDS) as part,
            T.vectorized(T.int64(0), T.int64(VECTOR_WORDS)) as c,
        ):
            channel = part * VECTOR_WORDS + c
            loaded = bias[thread.group * gemm.blocks + first + n, thread.first_channel + channel]
            T.buffer_store(start, loaded, [channel])
        with unrolled(tiles.rows) as m, unrolled(SUMS) as i:
            value = start[tirx.floormod(i, THREAD_CHANNELS)]
            T.buffer_store(acc, value, [(m * tiles.blocks + n) * SUMS + i])


def _if_ahead(step: Expr, steps: int, ahead: int, emit: Any) -> None:
    """Emit the copies of a later step, if there is one."""
    if steps > ahead:
        with where([step < steps - ahead]):
            emit(step + ahead)


def _multiply(thread: Thread, step: Expr, acc: Any, x: Any, w: Any) -> None:
    """Emit the products of the slabs of one fetch that are this warp's."""
    tiles, start = thread.tiles, stage(thread, step)
    multiply = "multiply_u8" if thread.spec.x == "uint8" else "multiply_s8"
    with unrolled(tiles.slabs // tiles.warp_slabs) as i:
        slab = i * tiles.warp_slabs + thread.warp_slab
        pixel = slab * tiles.pixels + thread.warp_row * (tiles.rows * MMA_ROWS)
        block = slab * tiles.channel_blocks + thread.warp_block * tiles.blocks
        x_start = start + pixel * BLOCK + thread.matrix_row
        w_start = start + tiles.x_bytes + block * SLAB_BYTES + thread.lane * CHUNK
        with unrolled(2 * tiles.blocks) as j:
            part = w_start + j * (SLAB_BYTES // 2)
            run("read_16", tirx.address_of(w[j * 4]), thread.staged, part)
        with unrolled(tiles.rows) as m:
            part = x_start + m * (MMA_ROWS * BLOCK)
            run("read_matrices", tirx.address_of(x[m * FRAGMENT]), thread.staged, part)
        with unrolled(tiles.rows) as m, unrolled(tiles.blocks) as n, unrolled(MMAS) as j:
            to = tirx.address_of(acc[(m * tiles.blocks + n) * SUMS + j * 2])
            x_words = [x[m * FRAGMENT + word] for word in range(FRAGMENT)]
            w_words = [w[n * THREAD_CHANNELS + j * 2 + word] for word in range(2)]
            run(multiply, to, *x_words, *w_words)


def join(thread: Thread, acc: Any) -> None:
    """Emit what adds up the sums of warps that shared the slabs, in the first of them."""
    tiles = thread.tiles
    if tiles.warp_slabs == 1:
        return
    tile = thread.warp_block * tiles.warp_rows + thread.warp_row
    count = tiles.warp_rows * tiles.warp_blocks

    def _at(warp_slab: Expr, i: Expr) -> Expr:
        word = ((warp_slab - 1) * count + tile) * tiles.sums + i
        return (word * WARP + thread.lane) * WORD

    barrier()
    with where([thread.warp_slab >= 1]), unrolled(tiles.sums) as i:
        run("write_4", thread.staged, _at(thread.warp_slab, i), acc[i])
    barrier()
    with (
        where([thread.warp_slab < 1]),
        unrolled(tiles.warp_slabs, start=1) as other,
        unrolled(tiles.sums) as i,
    ):
        theirs = call("read_4", thread.staged, _at(other, i), dtype="int32")
        T.buffer_store(acc, acc[i] + theirs, [i])
