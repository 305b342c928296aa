"""Attention on a GPU: a query of one head for a block of threads, its scores in shared memory.

    q, k, v, mask, y : as they lie in memory, see ``schedules.spec.product``

    blockIdx.x    batch, head, query
      threadIdx.x   keys      score: see ``schedules.cuda.dot_rows``
      threadIdx.x   keys      power, after the largest score of all
      threadIdx.x   elements of y: the mean of values

Exact:  bit-identical to the specification.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import int64
from schedules.bodies.buffers import allocate, declare_operator, whole
from schedules.bodies.expressions import clamp, to_integer
from schedules.bodies.matrices import (
    attention_refusal,
    outer_count,
)
from schedules.bodies.powers import power
from schedules.bodies.prim_func import axes, prim_func
from schedules.bodies.row_major import row_major_template
from schedules.bodies.vectors import fma
from schedules.cuda.device.devices import refuses_cuda
from schedules.cuda.device.limits import STATIC_BYTES
from schedules.cuda.device_math import for_cuda
from schedules.cuda.dot_rows import Line, accumulator, dot, grid, matrix_of
from schedules.cuda.statements import barrier
from schedules.spec import Attention
from schedules.spec.operator_spec import FLOAT32_MAX
from schedules.spec.product import MASKED_SCORE

NAME = "attention_cuda"
THREADS = 128
KEY_BYTES = 5  # a score and a power


def refuses(spec: Attention, target: Target) -> str | None:
    """Say why the template cannot be used, or None."""
    refusal = refuses_cuda(target) or attention_refusal(spec)
    most = (STATIC_BYTES - 8 * THREADS) // KEY_BYTES
    if refusal is None and spec.keys > most:
        return f"the scores of {spec.keys} keys do not fit shared memory; the most are {most}"
    return refusal


def kernel(spec: Attention) -> tirx.PrimFunc:
    """Return the PrimFunc; there is nothing left to schedule."""
    with prim_func() as builder:
        buffers = declare_operator(spec, {"z": 4, "clamp": 2, "m_scores": spec.heads})
        with T.sblock("root"):
            total = outer_count(spec) * spec.queries
            with grid(total, THREADS) as (block, thread), T.sblock(NAME):
                t, lane = axes("t lane", [total, T.int64(THREADS)], [block, thread])
                T.reads(*(whole(buffers[name]) for name in (*spec.tensors, *spec.params)))
                T.writes(whole(buffers["y"]))
                T.sblock_attr({"template": NAME})
                _Emitter(spec, buffers, lane).emit(t // spec.queries, t % spec.queries)
    return for_cuda(builder.get())


class _Emitter:
    """Emits what a block of threads does for one query."""

    def __init__(self, spec: Attention, buffers: dict[str, Any], lane: Expr) -> None:
        self.spec, self.buffers, self.lane = spec, buffers, lane
        self.score = "int32" if spec.mask_strides is None else "float32"
        self.scores = allocate("scores", (spec.keys,), self.score, "shared")
        self.powers = allocate("powers", (spec.keys,), "uint8", "shared")
        self.most = allocate("most", (THREADS,), self.score, "shared")
        self.sums = allocate("sums", (THREADS,), "int32", "shared")

    def emit(self, outer: Expr, query: Expr) -> None:
        """Emit scores, powers and means, a barrier after each."""
        self._each(self.spec.keys, lambda key: self._score(outer, query, key))
        self._store_largest()
        barrier()
        top = T.Bind(self._joined(self.most, tirx.max, MASKED_SCORE, -FLOAT32_MAX))
        self._store_powers(outer, top)
        barrier()
        total = T.Bind(self._joined(self.sums, lambda a, b: a + b, 0, 0))
        self._each(self.spec.width, lambda column: self._mean(outer, query, column, total))

    def _each(self, count: int, emit: Callable[[Expr], None]) -> None:
        """Share ``count`` elements out among the threads."""
        with T.serial(T.int64(-(-count // THREADS))) as turn:
            element = turn * THREADS + self.lane
            with T.If(element < count), T.Then():
                emit(element)

    def _score(self, outer: Expr, query: Expr, key: Expr) -> None:
        spec, z = self.spec, self.buffers["z"]
        q, k = (matrix_of(spec, self.buffers, name) for name in ("q", "k"))
        lines = [
            Line(buffer=matrix.flat(), step=matrix.strides[4], z=z[i])
            for i, matrix in enumerate((q, k))
        ]
        q_start = q.start(outer) + query * q.strides[3]
        k_start = k.start(outer) + key * k.strides[3]
        score = dot(lines[0], q_start, lines[1], k_start, spec.depth)
        if spec.mask_strides is not None:
            mask = matrix_of(spec, self.buffers, "mask")
            offset = mask.start(outer) + query * mask.strides[3] + key * mask.strides[4]
            logarithmic = mask.flat()[offset] * tirx.const(math.log2(math.e), "float32")
            score = fma(score.astype("float32"), self._factor(outer), logarithmic)
        T.buffer_store(self.scores, score, [key])

    def _factor(self, outer: Expr) -> Expr:
        """Return the multiplier of the scores of a head."""
        return self.buffers["m_scores"][outer % self.spec.heads]

    def _store_largest(self) -> None:
        """Store the largest of this thread's scores, which it has written itself."""
        low = MASKED_SCORE if self.score == "int32" else -FLOAT32_MAX
        T.buffer_store(self.most, tirx.const(low, self.score), [self.lane])

        def _compare(key: Expr) -> None:
            largest = tirx.max(self.most[self.lane], self.scores[key])
            T.buffer_store(self.most, largest, [self.lane])

        self._each(self.spec.keys, _compare)

    def _store_powers(self, outer: Expr, top: Expr) -> None:
        T.buffer_store(self.sums, tirx.const(0, "int32"), [self.lane])

        def _raise(key: Expr) -> None:
            below = self.scores[key] - top
            if self.score == "int32":
                below = below.astype("float32") * self._factor(outer)
            u = T.Bind(power(below))
            T.buffer_store(self.powers, u.astype("uint8"), [key])
            T.buffer_store(self.sums, self.sums[self.lane] + u, [self.lane])

        self._each(self.spec.keys, _raise)

    def _joined(
        self, shared: Any, join: Callable[[Expr, Expr], Expr], whole_low: float, real_low: float
    ) -> Expr:
        """Emit what all threads' values make together; every thread finds it by itself."""
        dtype = str(shared.dtype)
        joined = T.sblock_alloc_buffer(int64((1,)), dtype, scope="local", layout=None)
        low = whole_low if dtype == "int32" else real_low
        T.buffer_store(joined, tirx.const(low, dtype), [T.int64(0)])
        with T.serial(T.int64(THREADS)) as other:
            T.buffer_store(joined, join(joined[T.int64(0)], shared[other]), [T.int64(0)])
        return joined[T.int64(0)]

    def _mean(self, outer: Expr, query: Expr, column: Expr, total: Expr) -> None:
        spec, z = self.spec, self.buffers["z"]
        v, y = (matrix_of(spec, self.buffers, name) for name in ("v", "y"))
        values, start = v.flat(), v.start(outer) + column * v.strides[4]
        acc = accumulator("acc", "int32")
        with T.serial(T.int64(spec.keys)) as key:
            value = values[start + key * v.strides[3]].astype("int32") - z[2]
            weighed = self.powers[key].astype("int32") * value
            T.buffer_store(acc, acc[T.int64(0)] + weighed, [T.int64(0)])
        divisor = tirx.max(total, tirx.const(1, "int32")).astype("float32")
        scaled = acc[T.int64(0)].astype("float32") / divisor * self.buffers["m"][0]
        bounds = (self.buffers["clamp"][0], self.buffers["clamp"][1])
        is_float = spec.y == "float32"
        result = clamp(scaled, bounds) if is_float else to_integer(scaled, z[3], bounds, spec.y)
        offset = y.start(outer) + query * y.strides[3] + column * y.strides[4]
        T.buffer_store(y.flat(), result, [offset])


ATTENTION_CUDA = row_major_template("attention", NAME, refuses, kernel)
