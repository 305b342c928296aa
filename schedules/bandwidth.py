"""Read bandwidth: how fast threads stream a buffer of a given size, from cache or from memory."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as T

LANES, CHAINS = 16, 8  # int32 of a vector; sums of each thread, so that no addition waits for one
ROW_BYTES = 4 * LANES * CHAINS
WINDOWS, WINDOW_MS = 20, 2


def read_bandwidth(size_bytes: int, threads: int, target: Target) -> float:
    """Return the bytes a second that ``threads`` read, each its part of a buffer again and again.

    The buffer is as large as asked for, rounded down to whole rows of each thread (one at least).
    Timed in short windows, of which the fastest counts: other processes take cores away from most,
    and one thread that waits is enough. Runs in the pool of TVM's runtime, which must have
    ``threads``.
    """
    rows = max(1, size_bytes // (threads * ROW_BYTES))
    run = tvm.compile(_reading_loop(threads, rows), target=target)
    x = np.ones((threads, rows, CHAINS, LANES), "int32")
    arguments = [tvm.runtime.tensor(x), tvm.runtime.tensor(np.zeros((threads, LANES), "int32"))]
    evaluate = run.mod.time_evaluator(
        "main", tvm.cpu(), number=1, repeat=WINDOWS, min_repeat_ms=WINDOW_MS
    )
    return float(x.nbytes / min(evaluate(*arguments).results))


def _reading_loop(threads: int, rows: int) -> tvm.IRModule:
    """Return ``main(x, y)``: each thread adds up its rows of x, int32, and writes a vector of y."""
    lanes = f"int32x{LANES}"
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        x = T.arg("x", T.buffer([threads, rows, CHAINS, LANES], "int32", layout=None))
        y = T.arg("y", T.buffer([threads, LANES], "int32", layout=None))
        with T.sblock("root"), T.parallel(0, threads) as thread:
            total = T.sblock_alloc_buffer([CHAINS], lanes, scope="local", layout=None)
            with T.unroll(0, CHAINS) as chain:
                T.buffer_store(total, tirx.Broadcast(tirx.const(0, "int32"), LANES), [chain])
            with T.serial(0, rows) as row, T.unroll(0, CHAINS) as chain:
                vector = x[thread, row, chain, tirx.Ramp(0, 1, LANES)]
                T.buffer_store(total, total[chain] + vector, [chain])
            with T.unroll(0, CHAINS) as chain:
                added = y[thread, tirx.Ramp(0, 1, LANES)] + total[chain]
                T.buffer_store(y, added, [thread, tirx.Ramp(0, 1, LANES)])
    return tvm.IRModule({"main": builder.get()})
