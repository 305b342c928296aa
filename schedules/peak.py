"""Peak rate of one core: a loop of the dot-product instruction without loads."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as T

from schedules.arm.dots import SDOT, USDOT
from schedules.cpu.dot import PLAIN, Dot
from schedules.x86.dots import AVX2, AVXVNNI, VNNI

PEAK_LOOPS = 20_000
CHAINS = 12  # accumulators of the peak loop: more than latency times throughput
WINDOWS, WINDOW_MS = 60, 2


def peak(dot: Dot, target: Target) -> float:
    """Return multiplications per second of the instruction alone, on one core.

    Timed in many short windows, of which the tenth percentile counts: other processes take the core
    away from some.
    """
    x_type, w_type = ("float32", "float32") if dot.float32 else ("uint8", "int8")
    acc_type = "float32" if dot.float32 else "int32"
    run = tvm.compile(_peak_loop(dot, x_type, w_type, acc_type), target=target)
    args = [np.ones(dot.width, x_type), np.ones(16 * dot.width, w_type)]
    args.append(np.zeros((CHAINS, 16), acc_type))
    evaluate = run.mod.time_evaluator(
        "main", tvm.cpu(), number=1, repeat=WINDOWS, min_repeat_ms=WINDOW_MS
    )
    seconds = np.percentile(evaluate(*map(tvm.runtime.tensor, args)).results, 10)
    return float(PEAK_LOOPS * CHAINS * 16 * dot.width / seconds)


def best_dot(target: Target) -> Dot | None:
    """Return the instruction for integers that multiplies most on ``target``; None on a GPU."""
    for dot in (VNNI, AVXVNNI, USDOT, SDOT, AVX2, PLAIN):
        if dot.refuses(dot.x_types[0], target) is None:
            return dot
    return None


def _peak_loop(dot: Dot, x_type: str, w_type: str, acc_type: str) -> tvm.IRModule:
    lanes = f"{acc_type}x16"
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        x = T.arg("x", T.buffer([dot.width], x_type, layout=None))
        w = T.arg("w", T.buffer([16 * dot.width], w_type, layout=None))
        y = T.arg("y", T.buffer([CHAINS, 16], acc_type, layout=None))
        with T.sblock("root"):
            acc = T.sblock_alloc_buffer([CHAINS], lanes, scope="local", layout=None)
            with T.unroll(0, CHAINS) as j:
                T.buffer_store(acc, y[j, tirx.Ramp(0, 1, 16)], [j])
            with T.serial(0, PEAK_LOOPS), T.unroll(0, CHAINS) as j:
                x_in = x[tirx.Ramp(0, 1, dot.width)] if dot.width > 1 else x[0]
                T.buffer_store(acc, dot.step(acc[j], x_in, w[tirx.Ramp(0, 1, 16 * dot.width)]), [j])
            with T.unroll(0, CHAINS) as j:
                T.buffer_store(y, acc[j], [j, tirx.Ramp(0, 1, 16)])
    return tvm.IRModule({"main": builder.get()})
