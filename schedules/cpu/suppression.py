"""Non-maximum suppression on a CPU: a heap of candidates, as far as it is emptied.

    boxes, scores, labels, y: as ``schedules.spec.suppression`` has them, row major
    least, overlap float32 (1,)

Loops (p parallel, where there are several images):

    p:image
      candidate          those above the least score, into a heap: its first one is the next
      while any is left and y is not full
        take the first one; compare it with those that are kept

Detectors keep some hundred of some hundred thousand candidates: sorting all of them would take ten
times as long as the heap.

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
from schedules.cpu.elementwise import refuses_cpu
from schedules.spec import Suppression

NAME = "suppression_cpu"


def refuses(spec: Suppression, target: Target) -> str | None:
    """Say why the template cannot be used, or None."""
    return refuses_cpu(target) or bodies.refuses(spec)


def kernel(spec: Suppression) -> tirx.PrimFunc:
    """Return the PrimFunc; there is nothing left to schedule."""
    with prim_func() as builder:
        buffers = bodies.declare(spec)
        batch = buffers["scores"].shape[0]
        is_one = isinstance(spec.batch, int) and spec.batch == 1
        loop = (T.serial if is_one else T.parallel)(batch)
        with T.sblock("root"), loop as image, T.sblock("suppression"):
            (n,) = axes("n", [batch], [image])
            T.reads(*(whole(buffer) for key, buffer in buffers.items() if key != "y"))
            T.writes(whole(buffers["y"]))
            T.sblock_attr({"template": NAME})
            _Emitter(spec, buffers, n).emit()
    return builder.get()


class _Emitter:
    """Emits one image into the IRBuilder that is open."""

    def __init__(self, spec: Suppression, buffers: dict[str, Any], n: Expr) -> None:
        self.spec, self.n, self.y = spec, n, buffers["y"]
        self.candidates = Candidates(spec, buffers, n)
        self.heap = allocate("heap", (spec.candidates,), "int32")
        self.limits = bodies.limits(spec)
        self.counts = {name: allocate(name, (spec.classes,), "int32") for name in self.limits}
        self.size, self.kept, self.item, self.hole, self.child, self.index, self.top = (
            Scalar(name, "int32", "global")
            for name in ("size", "kept", "item", "hole", "child", "index", "top")
        )
        self.sinking, self.alive, self.open_classes = (
            Scalar(name, "int32", "global") for name in ("sinking", "alive", "open_classes")
        )

    def emit(self) -> None:
        """Emit the heap, and what is taken from it."""
        self._clear_counts()
        self._collect()
        self._order()
        self.kept.set(_int(0))
        goes_on = [self.size.value > 0, self.kept.value < self.spec.max_output]
        if not self.spec.lists_all:
            goes_on.append(self.open_classes.value > 0)
        with T.While(tirx.all(*goes_on)):
            self._take()
            self._examine()
        with T.While(self.kept.value < self.spec.max_output):
            self._keep(_int(-1))

    def _clear_counts(self) -> None:
        self.open_classes.set(_int(self.spec.classes))
        for counts in self.counts.values():
            with T.serial(T.int64(self.spec.classes)) as row:
                T.buffer_store(counts, _int(0), [row])

    def _collect(self) -> None:
        """Emit that the candidates above the least score are written one behind the other."""
        self.size.set(_int(0))
        with T.serial(_int(self.spec.candidates)) as number:
            score = self.candidates.score(number)
            with T.If(score > self.candidates.least), T.Then():
                self._store(self.size.value, number)
                self.size.increment()

    def _order(self) -> None:
        """Emit that each candidate precedes the two below it."""
        self.index.set(tirx.truncdiv(self.size.value, _int(2)))
        with T.While(self.index.value > 0):
            self.index.set(self.index.value - 1)
            self._sink(self.index.value)

    def _take(self) -> None:
        """Emit that the first one leaves the heap."""
        self.top.set(self._at(_int(0)))
        self.size.set(self.size.value - 1)
        self._store(_int(0), self._at(self.size.value))
        self._sink(_int(0))

    def _sink(self, start: Expr) -> None:
        """Emit that the candidate at ``start`` goes down, below those that precede it."""
        self.item.set(self._at(start))
        self.hole.set(start)
        self.sinking.set(_int(1))
        child, hole, size = self.child, self.hole, self.size
        with T.While(self.sinking.value > 0):
            self.sinking.set(_int(0))
            child.set(hole.value * 2 + 1)
            with T.If(child.value + 1 < size.value), T.Then():
                second, first = self._at(child.value + 1), self._at(child.value)
                with T.If(self.candidates.precedes(second, first)), T.Then():
                    child.increment()
            with T.If(child.value < size.value), T.Then():
                first = self._at(child.value)
                with T.If(self.candidates.precedes(first, self.item.value)), T.Then():
                    self._store(hole.value, first)
                    hole.set(child.value)
                    self.sinking.set(_int(1))
        self._store(hole.value, self.item.value)

    def _examine(self) -> None:
        """Emit that what was taken is kept, unless its class is full or something suppresses it."""
        self.alive.set(tirx.Select(self._is_open(), _int(1), _int(0)))
        with T.If(self.alive.value > 0), T.Then():
            if self.spec.compares:
                self._compare()
            if self.counts:
                self._count()
        if self.spec.lists_all:
            number = tirx.Select(self.alive.value > 0, self.top.value, _int(-2) - self.top.value)
            self._keep(number)
            return
        with T.If(self.alive.value > 0), T.Then():
            self._keep(self.top.value)

    def _compare(self) -> None:
        """Emit that what suppresses the candidate is looked for."""
        top = self.top.value
        self.index.set(_int(0))
        with T.While(tirx.all(self.alive.value > 0, self.index.value < self.kept.value)):
            other = self.y[self.n, self.index.value.astype("int64")]
            is_rival = self.candidates.suppresses(other, top)
            with T.If(other >= 0), T.Then(), T.If(is_rival), T.Then():
                self.alive.set(_int(0))
            self.index.increment()

    def _count(self) -> None:
        """Emit that the candidate counts, and that a class is full from some number on."""
        row = self.candidates.row(self.top.value).astype("int64")
        grown = {"looked_at": _int(1), "taken": self.alive.value}
        for name, counts in self.counts.items():
            T.buffer_store(counts, counts[row] + grown[name], [row])
        with T.If(tirx.Not(self._is_open())), T.Then():
            self.open_classes.set(self.open_classes.value - 1)

    def _is_open(self) -> Expr:
        """Say whether candidates of the taken one's class are still looked at."""
        row = self.candidates.row(self.top.value).astype("int64")
        below = [self.counts[name][row] < limit for name, limit in self.limits.items()]
        return tirx.all(*below) if below else tirx.const(True)

    def _keep(self, number: Expr) -> None:
        T.buffer_store(self.y, number, [self.n, self.kept.value.astype("int64")])
        self.kept.increment()

    def _at(self, place: Expr) -> Expr:
        return self.heap[place.astype("int64")]

    def _store(self, place: Expr, number: Expr) -> None:
        T.buffer_store(self.heap, number, [place.astype("int64")])


def _int(value: int) -> Expr:
    return tirx.const(value, "int32")


SUPPRESSION_CPU = row_major_template("suppression", NAME, refuses, kernel)
