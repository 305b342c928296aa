"""Recurrent layers on a GPU: a block of threads a sequence, an element of the state a thread.

    x, y : as ``schedules.spec.recurrence`` has them, row major
    w    : int8 (k/4, gates, hidden, 4), float32 (k, gates, hidden, 1): neighbours in neighbouring
           threads; k is filled up with zeros
    bias, scale, start as the spec has them; s float32 (1,), z int32 (1,), clamp float32 (2,)

Loops:

    blockIdx.x     sequence
    threadIdx.x    element of the state; where there are more than threads, several each
      step of the sequence
        turn of the threads
          k        dp4a (float32: fma), a sum for each gate
          the gates, the state
        largest element, the state in bytes, in shared memory; a barrier after each

Exact:  integer products: bit-identical to the specification. float32 sums ascend over k.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from tvm import tirx
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies import recurrence as bodies
from schedules.bodies.buffers import allocate, declare_arguments, flat, whole
from schedules.bodies.prim_func import axes, prim_func
from schedules.bodies.recurrence import Elements, Phase
from schedules.bodies.row_major import row_major_template
from schedules.bodies.rows import stored
from schedules.bodies.vectors import fma
from schedules.cuda.device.devices import refuses_cuda, refuses_dp4a
from schedules.cuda.device_math import for_cuda
from schedules.cuda.dot_rows import WORD, grid
from schedules.cuda.statements import barrier, registers
from schedules.spec import Recurrence
from schedules.spec.recurrence import LEAST_STATE
from schedules.template import Arrays

NAME = "recurrence_cuda"
WARP, MOST_THREADS = 32, 512
SHARED_BYTES = 48 * 1024  # of a block, without asking for more


def refuses(spec: Recurrence, target: Target) -> str | None:
    """Say why the template cannot be used, or None."""
    refusal = refuses_dp4a("int8", target) if spec.quantized else refuses_cuda(target)
    if refusal or (refusal := bodies.refuses(spec)):
        return refusal
    taken = _depth(spec) * (1 if spec.quantized else 4) + 4 * threads(spec)
    if taken > SHARED_BYTES:
        return f"its state takes {taken} bytes of shared memory; the most are {SHARED_BYTES}"
    return None


def threads(spec: Recurrence) -> int:
    """Return how many threads a block has."""
    return min(-(-spec.hidden // WARP) * WARP, MOST_THREADS)


def pack(spec: Recurrence, params: Arrays) -> Arrays:
    """Return the constants as the kernel reads them."""
    width = _width(spec)
    w = params["w"].reshape(spec.gates, spec.hidden, spec.hidden)
    w = np.pad(w, ((0, 0), (0, 0), (0, _depth(spec) - spec.hidden)))
    words = w.reshape(spec.gates, spec.hidden, -1, width).transpose(2, 0, 1, 3)
    return {**params, "w": np.ascontiguousarray(words)}


def kernel(spec: Recurrence) -> tirx.PrimFunc:
    """Return the kernel, bound to threads already."""
    with prim_func() as builder:
        buffers = declare_arguments(_arguments(spec))
        batch, count = buffers["x"].shape[1 - spec.time], threads(spec)
        with (
            T.sblock("root"),
            grid(batch, count) as (block, thread),
            T.sblock(NAME),
        ):
            n, lane = axes("n lane", [batch, T.int64(count)], [block, thread])
            T.reads(*(whole(buffer) for name, buffer in buffers.items() if name != "y"))
            T.writes(whole(buffers["y"]))
            T.sblock_attr({"template": NAME})
            _Emitter(spec, buffers, n, lane).emit()
    return for_cuda(builder.get())


def _width(spec: Recurrence) -> int:
    return WORD if spec.quantized else 1


def _depth(spec: Recurrence) -> int:
    """Return the elements of the state, whole words of them."""
    return -(-spec.hidden // _width(spec)) * _width(spec)


def _arguments(spec: Recurrence) -> dict[str, tuple[Any, str]]:
    rows, width = spec.gates * spec.hidden, _width(spec)
    shapes: dict[str, Any] = {
        "w": (_depth(spec) // width, spec.gates, spec.hidden, width),
        **{"bias": (spec.hidden,), "scale": (rows,), "start": (rows,)},
        **{"s": (1,), "z": (1,), "clamp": (2,)},
    }
    return {
        **{name: (spec.shape(name), "float32") for name in spec.tensors},
        **{name: (shapes[name], spec.constant_dtype(name)) for name in spec.params},
        "y": (spec.shape("y"), spec.y),
    }


class _Emitter:
    """Emits what a thread does for one sequence.

    ``held`` are registers: an element of the state for each turn of this thread.
    """

    def __init__(self, spec: Recurrence, buffers: dict[str, Any], n: Expr, lane: Expr) -> None:
        self.spec, self.buffers, self.n, self.lane = spec, buffers, n, lane
        self.threads = threads(spec)
        self.turns = -(-spec.hidden // self.threads)
        self.x, self.y = flat(buffers["x"]), flat(buffers["y"])
        self.held = {name: registers(name, self.turns, "float32") for name in bodies.held(spec)}
        dtype = "int8" if spec.quantized else "float32"
        self.multiplied = allocate("multiplied", (_depth(spec),), dtype, "shared")
        self.most = allocate("most", (self.threads,), "float32", "shared")
        self.top = registers("top", 1, "float32")

    def emit(self) -> None:
        """Emit the steps, from the state before the first one on."""
        spec, batch = self.spec, self.buffers["x"].shape[1 - self.spec.time]
        self._begin()
        self._fill()
        self._multiply_next(self.held["h"])
        with T.serial(T.int64(spec.steps)) as i:
            t = spec.steps - 1 - i if spec.backward else i
            row = T.Bind(self.n * spec.steps + t if spec.time else t * batch + self.n)
            for phase in bodies.PHASES[spec.cell]:
                if phase.multiplied != "h":
                    self._multiply_next(self.held[phase.multiplied])
                self._phase(phase, row)
            self._multiply_next(self.held["h"])
            if spec.gives == "outputs":
                self._write(self.held["h"], row)
        if spec.gives == "memory":
            self._write(self.held["c"], self.n)

    def _begin(self) -> None:
        """Emit the state before the first step: zeros, or what is given."""
        for state in self.held.values():
            with T.serial(T.int64(self.turns)) as turn:
                T.buffer_store(state, tirx.const(0, "float32"), [turn])
        for name in self.spec.states:
            self._each(partial(self._copy_state, name))

    def _copy_state(self, name: bodies.Held, turn: Expr, element: Expr) -> None:
        T.buffer_store(self.held[name], self.buffers[name][self.n, element], [turn])

    def _phase(self, phase: Phase, row: Expr) -> None:
        """Emit the products of some gates of each element, and what is made of them."""
        spec, dtype = self.spec, "int32" if self.spec.quantized else "float32"
        step = T.Bind(bodies.step_of(self.top[T.int64(0)])) if spec.quantized else None

        def _element(turn: Expr, element: Expr) -> None:
            sums = {gate: registers("acc", 1, dtype) for gate in phase.gates}
            for acc in sums.values():
                T.buffer_store(acc, tirx.const(0, dtype), [T.int64(0)])
            with T.serial(T.int64(_depth(spec) // _width(spec))) as k:
                for gate, acc in sums.items():
                    total = self._products_added(acc[T.int64(0)], gate, element, k)
                    T.buffer_store(acc, total, [T.int64(0)])
            of_gates = {gate: acc[T.int64(0)] for gate, acc in sums.items()}
            phase.emit(self._elements(turn, element, row, of_gates, step))

        self._each(_element)

    def _elements(
        self, turn: Expr, element: Expr, row: Expr, sums: dict[int, Expr], step: Expr | None
    ) -> Elements:
        """Return one element of the state, whose products are ``sums``, by gate."""
        spec = self.spec

        def _added(gate: int, addend: Expr) -> Expr:
            if step is None:
                return addend + sums[gate]
            start, scale = (
                self.buffers[name][element + gate * spec.hidden] for name in ("start", "scale")
            )
            return bodies.added(sums[gate] + start, scale, step, addend)

        return Elements(
            inputs=lambda gate: self.x[(row * spec.gates + gate) * spec.hidden + element],
            added=_added,
            bias=lambda: self.buffers["bias"][element],
            load=lambda name: T.Bind(self.held[name][turn]),
            store=lambda name, value: T.buffer_store(self.held[name], value, [turn]),
            scope="local",
        )

    def _multiply_next(self, state: Any) -> None:
        """Emit what the next products multiply, and of integers its largest element."""
        barrier()  # all have read what was multiplied before
        if self.spec.quantized:
            self._find_largest(state)

        def _store(turn: Expr, element: Expr) -> None:
            value = state[turn]
            if self.spec.quantized:
                value = bodies.rounded(value, self.top[T.int64(0)]).astype("int8")
            T.buffer_store(self.multiplied, value, [element])

        self._each(_store)
        barrier()

    def _find_largest(self, state: Any) -> None:
        """Emit ``top``, which every thread finds by itself among those of all."""
        zero = T.int64(0)
        T.buffer_store(self.top, tirx.const(LEAST_STATE, "float32"), [zero])
        self._each(lambda turn, _: self._raise_top(bodies.magnitude(state[turn])))
        T.buffer_store(self.most, self.top[zero], [self.lane])
        barrier()
        with T.serial(T.int64(self.threads)) as other:
            self._raise_top(self.most[other])

    def _raise_top(self, value: Expr) -> None:
        T.buffer_store(self.top, tirx.max(self.top[T.int64(0)], value), [T.int64(0)])

    def _products_added(self, acc: Expr, gate: int, element: Expr, k: Expr) -> Expr:
        w = self.buffers["w"]
        if not self.spec.quantized:
            return fma(self.multiplied[k], w[k, T.int64(gate), element, T.int64(0)], acc)
        four = tirx.Ramp(T.int64(0), T.int64(1), WORD)
        q = self.multiplied[tirx.Ramp(k * WORD, T.int64(1), WORD)]
        words = (tirx.reinterpret("int32", v) for v in (q, w[k, T.int64(gate), element, four]))
        return tirx.call_pure_extern("int32", "__dp4a", *words, acc)

    def _fill(self) -> None:
        """Emit zeros behind the state, where words of it are read."""
        rest = _depth(self.spec) - self.spec.hidden
        if rest:
            with T.If(self.lane < rest), T.Then():
                zero = tirx.const(0, str(self.multiplied.dtype))
                T.buffer_store(self.multiplied, zero, [self.lane + self.spec.hidden])

    def _write(self, state: Any, row: Expr) -> None:
        def _element(turn: Expr, element: Expr) -> None:
            value = stored(self.spec, state[turn], self.buffers)
            T.buffer_store(self.y, value, [row * self.spec.hidden + element])

        self._each(_element)

    def _each(self, emit: Callable[[Expr, Expr], None]) -> None:
        """Emit a loop over the elements of this thread; ``emit`` gets the turn and the element."""
        with T.serial(T.int64(self.turns)) as turn:
            element = turn * self.threads + self.lane
            if self.spec.hidden % self.threads == 0:
                emit(turn, element)
                return
            with T.If(element < self.spec.hidden), T.Then():
                emit(turn, element)


RECURRENCE_CUDA = replace(row_major_template("recurrence", NAME, refuses, kernel), pack=pack)
