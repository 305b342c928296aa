"""Peak rate of one core: a loop of the dot-product instruction, with next to no loads."""

from __future__ import annotations

import numpy as np
import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as T

from schedules.arm.dots import SDOT, USDOT
from schedules.bodies.buffers import ramp
from schedules.cpu.dot import PLAIN, Dot
from schedules.target_features import has_feature
from schedules.x86.dots import AVX2, AVXVNNI, VNNI

PEAK_LOOPS = 20_000
CHAINS = 12  # accumulators of the peak loop: more than latency times throughput
FEW_CHAINS = 6  # where one takes two registers or more: that many are as independent
WORDS = 16  # values of x that take turns in a chain
FUSED = 4  # products of an instruction that adds them to an accumulator itself
WINDOWS, WINDOW_MS = 60, 2


def peak(dot: Dot, target: Target) -> float:
    """Return multiplications per second of the instruction alone, on one core.

    Timed in many short windows, of which the tenth percentile counts: other processes take the core
    away from some.
    """
    x_type, w_type, acc_type = _types(dot)
    chains = CHAINS if has_feature("avx512f", target) else FEW_CHAINS
    shape = _x_shape(dot, chains)
    run = tvm.compile(_peak_loop(dot, shape, chains), target=target)
    args = [np.ones(shape, x_type), np.ones(16 * dot.width, w_type)]
    args.append(np.zeros((chains, 16), acc_type))
    evaluate = run.mod.time_evaluator(
        "main", tvm.cpu(), number=1, repeat=WINDOWS, min_repeat_ms=WINDOW_MS
    )
    seconds = np.percentile(evaluate(*map(tvm.runtime.tensor, args)).results, 10)
    return float(PEAK_LOOPS * chains * 16 * dot.width / seconds)


def best_dot(target: Target) -> Dot | None:
    """Return the instruction for integers that multiplies most on ``target``; None on a GPU."""
    for dot in (VNNI, AVXVNNI, USDOT, SDOT, AVX2, PLAIN):
        if dot.refuses(dot.x_types[0], target) is None:
            return dot
    return None


def _types(dot: Dot) -> tuple[str, str, str]:
    """Return the types of x, weights and accumulators."""
    if dot.float32:
        return "float32", "float32", "float32"
    return dot.staged or dot.x_types[0], "int8", "int32"


def _x_shape(dot: Dot, chains: int) -> tuple[int, int, int]:
    """Return the chains that have an x of their own, its words, and the elements of a word.

    Where products are added by another instruction, LLVM would compute equal ones once.
    """
    return (1, 1, dot.width) if dot.width >= FUSED else (chains, WORDS, dot.width)


def _peak_loop(dot: Dot, x_shape: tuple[int, int, int], chains: int) -> tvm.IRModule:
    x_type, w_type, acc_type = _types(dot)
    lanes, all_lanes = f"{acc_type}x16", ramp(16)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        x = T.arg("x", T.buffer(x_shape, x_type, layout=None))
        w = T.arg("w", T.buffer([16 * dot.width], w_type, layout=None))
        y = T.arg("y", T.buffer([chains, 16], acc_type, layout=None))
        with T.sblock("root"):
            acc = T.sblock_alloc_buffer([chains], lanes, scope="local", layout=None)
            with T.unroll(0, chains) as j:
                T.buffer_store(acc, y[j, all_lanes], [j])
            with T.serial(0, PEAK_LOOPS) as i, T.unroll(0, chains) as j:
                x_in = x[j % x_shape[0], i % x_shape[1], ramp(dot.width)]
                T.buffer_store(acc, dot.step(acc[j], x_in, w[ramp(16 * dot.width)]), [j])
            with T.unroll(0, chains) as j:
                T.buffer_store(y, acc[j], [j, all_lanes])
    return tvm.IRModule({"main": builder.get()})
