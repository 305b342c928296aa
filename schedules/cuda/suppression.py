"""Non-maximum suppression on a GPU: a block of threads an image, which finds one candidate a turn.

    boxes, scores, labels, y: as ``schedules.spec.suppression`` has them, row major
    least, overlap float32 (1,)

Loops:

    blockIdx.x     image
    threadIdx.x    every so many-th candidate, then every so many-th kept one
      while any is left and y is not full
        candidate           the first one behind the last turn's, in registers
        tree                the first one of all threads, in shared memory
        kept ones           whether one suppresses it

Nothing is sorted and nothing marked, so that there is no memory of the candidates' size: a turn
reads all scores once, neighbours by neighbouring threads.

Exact:  bit-identical to the specification.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies import suppression as bodies
from schedules.bodies.buffers import allocate, whole
from schedules.bodies.prim_func import axes, prim_func
from schedules.bodies.row_major import row_major_template
from schedules.bodies.suppression import Candidates, Scalar
from schedules.cuda.device.devices import refuses_cuda
from schedules.cuda.device_math import for_cuda
from schedules.cuda.dot_rows import grid
from schedules.cuda.statements import barrier
from schedules.spec import Suppression
from schedules.spec.operator_spec import FLOAT32_MAX

NAME = "suppression_cuda"
THREADS = 512
MOST_CLASSES = 4096  # whose counts are in shared memory
NONE = bodies.LARGEST


def refuses(spec: Suppression, target: Target) -> str | None:
    """Say why the template cannot be used, or None."""
    if (spec.top_k or spec.max_per_class) and spec.classes > MOST_CLASSES:
        return f"it counts candidates of {spec.classes} classes; the most are {MOST_CLASSES}"
    return refuses_cuda(target) or bodies.refuses(spec)


def kernel(spec: Suppression) -> tirx.PrimFunc:
    """Return the kernel, bound to threads already."""
    with prim_func() as builder:
        buffers = bodies.declare(spec)
        batch = buffers["scores"].shape[0]
        with (
            T.sblock("root"),
            grid(batch, THREADS) as (block, thread),
            T.sblock(NAME),
        ):
            n, lane = axes("n lane", [batch, T.int64(THREADS)], [block, thread])
            T.reads(*(whole(buffer) for name, buffer in buffers.items() if name != "y"))
            T.writes(whole(buffers["y"]))
            T.sblock_attr({"template": NAME})
            _Emitter(spec, buffers, n, lane).emit()
    return for_cuda(builder.get())


class _Emitter:
    """Emits what a thread does for one image.

    Scalars are registers. After each turn all but ``index`` hold the same in all threads.
    """

    def __init__(self, spec: Suppression, buffers: dict[str, Any], n: Expr, lane: Expr) -> None:
        self.spec, self.n, self.y = spec, n, buffers["y"]
        self.lane = lane.astype("int32")
        self.candidates = Candidates(spec, buffers, n)
        self.limits = bodies.limits(spec)
        self.counts = {
            name: allocate(name, (spec.classes,), "int32", "shared") for name in self.limits
        }
        self.scores = allocate("scores_of_threads", (THREADS,), "float32", "shared")
        self.numbers = allocate("numbers_of_threads", (THREADS,), "int32", "shared")
        self.is_suppressed = allocate("is_suppressed", (1,), "int32", "shared")
        self.best, self.last, self.kept, self.index, self.going, self.open_classes = (
            Scalar(name, "int32", "local")
            for name in ("best", "last", "kept", "index", "going", "open_classes")
        )
        self.counted = {name: Scalar(f"{name}_so_far", "int32", "local") for name in self.limits}
        self.best_score, self.last_score, self.other_score = (
            Scalar(name, "float32", "local") for name in ("best_score", "last_score", "other_score")
        )

    def emit(self) -> None:
        """Emit turn after turn."""
        self._begin()
        with T.While(self.going.value > 0):
            self._find()
            self._join()
            self._look_for_rivals()
            self._decide()
        self.index.set(self.kept.value + self.lane)
        with T.While(self.index.value < self.spec.max_output):
            self._write(self.index.value, _int(-1))
            self.index.set(self.index.value + THREADS)

    def _begin(self) -> None:
        self.kept.set(_int(0))
        self.last.set(_int(-1))
        self.last_score.set(tirx.const(float("inf"), "float32"))
        self.going.set(_int(1))
        self.open_classes.set(_int(self.spec.classes))
        if self.limits:
            self._each(
                self.spec.classes,
                lambda row: [
                    T.buffer_store(self.counts[name], _int(0), [row.astype("int64")])
                    for name in self.limits
                ],
            )

    def _find(self) -> None:
        """Emit the first of this thread's candidates behind the last turn's."""
        self.best.set(_int(NONE))
        self.best_score.set(tirx.const(-FLOAT32_MAX, "float32"))

        def _see(number: Expr) -> None:
            score = self.candidates.score(number)
            is_behind = bodies.precedes(self.last_score.value, self.last.value, score, number)
            is_first = tirx.any(
                self.best.value.equal(_int(NONE)),
                bodies.precedes(score, number, self.best_score.value, self.best.value),
            )
            with T.If(tirx.all(score > self.candidates.least, is_behind, is_first)), T.Then():
                self.best.set(number)
                self.best_score.set(score)

        self._each(self.spec.candidates, _see)

    def _join(self) -> None:
        """Emit the first candidate of all threads, which each of them gets; maybe ``NONE``.

        Each thread joins what it knows with what another one knows, half a block away, then a
        quarter. TVM 0.27 lets no branch read shared memory: registers take what is compared.
        """
        lane = self.lane.astype("int64")
        reach = THREADS // 2
        while reach:
            T.buffer_store(self.scores, self.best_score.value, [lane])
            T.buffer_store(self.numbers, self.best.value, [lane])
            barrier()
            there = tirx.truncmod(lane + reach, T.int64(THREADS))
            self.other_score.set(self.scores[there])
            self.index.set(self.numbers[there])
            barrier()
            precedes = bodies.precedes(
                self.other_score.value, self.index.value, self.best_score.value, self.best.value
            )
            with T.If(precedes), T.Then():
                self.best_score.set(self.other_score.value)
                self.best.set(self.index.value)
            reach //= 2
        self.last.set(self.best.value)
        self.last_score.set(self.best_score.value)
        with T.If(self.lane.equal(_int(0))), T.Then():
            T.buffer_store(self.is_suppressed, _int(0), [T.int64(0)])
        barrier()

    def _look_for_rivals(self) -> None:
        """Emit whether a kept candidate suppresses the one of this turn."""
        with T.If(self.last.value.equal(_int(NONE))), T.Then():
            self.going.set(_int(0))
        if not self.spec.compares:
            return
        self.index.set(self.lane)
        with T.While(tirx.all(self.going.value > 0, self.index.value < self.kept.value)):
            other = self.y[self.n, self.index.value.astype("int64")]
            is_rival = self.candidates.suppresses(other, self.last.value)
            with T.If(other >= 0), T.Then(), T.If(is_rival), T.Then():
                T.buffer_store(self.is_suppressed, _int(1), [T.int64(0)])
            self.index.set(self.index.value + THREADS)
        barrier()

    def _decide(self) -> None:
        """Emit that the candidate is kept, and counted, by the first thread."""
        is_there = self.going.value > 0
        row = tirx.Select(is_there, self.candidates.row(self.last.value), _int(0)).astype("int64")
        for name, count in self.counts.items():
            self.counted[name].set(count[row])
        below = [self.counted[name].value < limit for name, limit in self.limits.items()]
        alive = self.is_suppressed[T.int64(0)].equal(_int(0))
        self.index.set(tirx.Select(tirx.all(is_there, alive, *below), _int(1), _int(0)))
        barrier()  # all have read what the first thread writes
        with T.If(tirx.all(is_there, self.lane.equal(_int(0)))), T.Then():
            grown = {"looked_at": _int(1), "taken": self.index.value}
            for name, count in self.counts.items():
                T.buffer_store(count, self.counted[name].value + grown[name], [row])
            self._list()
        listed = tirx.Select(is_there, _int(1), _int(0)) if self.spec.lists_all else None
        self.kept.set(self.kept.value + (self.index.value if listed is None else listed))
        if self.limits and not self.spec.lists_all:
            self._close(tirx.all(is_there, *below))
        is_over = [self.kept.value >= self.spec.max_output, self.open_classes.value <= 0]
        with T.If(tirx.any(*is_over)), T.Then():
            self.going.set(_int(0))
        barrier()

    def _close(self, was_open: Expr) -> None:
        """Emit that a class whose last candidate this was is full: there is one to look at less."""
        grown = {"looked_at": _int(1), "taken": self.index.value}
        is_full = [
            self.counted[name].value + grown[name] >= limit for name, limit in self.limits.items()
        ]
        with T.If(tirx.all(was_open, tirx.any(*is_full))), T.Then():
            self.open_classes.set(self.open_classes.value - 1)

    def _list(self) -> None:
        """Emit that the candidate is written, if it is to be; as -2 - number if it is not kept."""
        last = self.last.value
        if self.spec.lists_all:
            number = tirx.Select(self.index.value > 0, last, _int(-2) - last)
            self._write(self.kept.value, number)
            return
        with T.If(self.index.value > 0), T.Then():
            self._write(self.kept.value, last)

    def _write(self, place: Expr, number: Expr) -> None:
        T.buffer_store(self.y, number, [self.n, place.astype("int64")])

    def _each(self, count: int, emit: Any) -> None:
        """Emit a loop over the numbers below ``count`` that are this thread's."""
        with T.serial(_int(-(-count // THREADS))) as turn:
            number = turn * THREADS + self.lane
            if count % THREADS == 0:
                emit(number)
                return
            with T.If(number < count), T.Then():
                emit(number)


def _int(value: int) -> Expr:
    return tirx.const(value, "int32")


SUPPRESSION_CUDA = row_major_template("suppression", NAME, refuses, kernel)
