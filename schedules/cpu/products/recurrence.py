"""Recurrent layers for any instruction flavour: the steps are a loop, the state stays in cache.

    x, y  : as ``schedules.spec.recurrence`` has them, row major
    constants : see ``schedules.cpu.products.recurrence_arguments``

A block is 16 elements of the state. Loops (p parallel, where there are several sequences):

    p:batch
      step of the sequence
        blocks, some at once
          k       the instruction: a sum in registers for each gate
          the gates, the state
        largest element, the state in bytes
        y

``gru_state`` multiplies twice: the state by r and z, then ``r * state`` by n. Lanes past the state
have weights and inputs of zero, and stay zero.

Exact:  integer products: bit-identical to the specification. float32 sums ascend over k.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import tirx
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies import recurrence as bodies
from schedules.bodies.buffers import allocate, declare_arguments, flat, ramp, whole
from schedules.bodies.prim_func import axes, prim_func
from schedules.bodies.recurrence import Elements, Phase
from schedules.bodies.row_major import row_major_template
from schedules.bodies.rows import stored
from schedules.bodies.vectors import cast, splat
from schedules.cpu.dot import LANES, Dot
from schedules.cpu.lanes import joined
from schedules.cpu.products.matrix_tiles import Tile, accumulate, by_blocks
from schedules.cpu.products.recurrence_arguments import (
    arguments,
    blocks_of,
    pack,
    state_type,
    steps_of,
)
from schedules.cpu.signs import SIGN
from schedules.spec import Recurrence
from schedules.spec.recurrence import LEAST_STATE
from schedules.template import Arrays, ScheduleTemplate


def recurrence_template(dot: Dot) -> ScheduleTemplate:
    """Return the template of recurrent layers, "recurrence_<flavour>"."""
    name = f"recurrence_{dot.name}"

    def _refuses(spec: Recurrence, target: Target) -> str | None:
        if spec.quantized == dot.float32:
            return f"the products are {'not ' if dot.float32 else ''}to be of floats"
        return dot.refuses(state_type(dot), target) or bodies.refuses(spec)

    def _kernel(spec: Recurrence) -> tirx.PrimFunc:
        return kernel(dot, name, spec)

    def _pack(spec: Recurrence, params: Arrays) -> Arrays:
        return pack(dot, spec, params)

    template = row_major_template("recurrence", name, _refuses, _kernel)
    return replace(template, pack=_pack)


def kernel(dot: Dot, name: str, spec: Recurrence) -> tirx.PrimFunc:
    """Return the PrimFunc of template ``name``; there is nothing left to schedule."""
    with prim_func(estimated_flops=2 * spec.multiplications) as builder:
        buffers = declare_arguments(arguments(dot, spec))
        batch = buffers["x"].shape[1 - spec.time]
        is_one = isinstance(spec.batch, int) and spec.batch == 1
        loop = (T.serial if is_one else T.parallel)(batch)
        with T.sblock("root"), loop as sequence, T.sblock("recurrence"):
            (n,) = axes("n", [batch], [sequence])
            T.reads(*(whole(buffer) for key, buffer in buffers.items() if key != "y"))
            T.writes(whole(buffers["y"]))
            T.sblock_attr({"template": name})
            _Emitter(dot, spec, buffers, n).emit()
    return builder.get()


class _Emitter:
    """Emits one sequence into the IRBuilder that is open; states are held in whole blocks."""

    def __init__(self, dot: Dot, spec: Recurrence, buffers: dict[str, Any], n: Expr) -> None:
        self.dot, self.spec, self.buffers, self.n = dot, spec, buffers, n
        self.blocks, self.steps = blocks_of(spec), steps_of(dot, spec)
        self.x, self.y = flat(buffers["x"]), flat(buffers["y"])
        self.held = {name: self._state(name) for name in bodies.held(spec)}
        self.multiplied = self._state("multiplied", state_type(dot))
        self.top = allocate("top", (1,), "float32")
        self.inputs = self._inputs()

    def emit(self) -> None:
        """Emit the steps, from the state before the first one on."""
        self._begin()
        spec, batch = self.spec, self.buffers["x"].shape[1 - self.spec.time]
        with T.serial(T.int64(spec.steps)) as i:
            t = spec.steps - 1 - i if spec.backward else i
            row = T.Bind(self.n * spec.steps + t if spec.time else t * batch + self.n)
            self._copy_inputs(row)
            for phase in bodies.PHASES[spec.cell]:
                if phase.multiplied != "h":
                    self._multiply_next(self.held[phase.multiplied])
                self._phase(phase, row)
            self._multiply_next(self.held["h"])
            if spec.gives == "outputs":
                self._write(self.held["h"], row)
        if spec.gives == "memory":
            self._write(self.held["c"], self.n)

    def _phase(self, phase: Phase, row: Expr) -> None:
        """Emit the products of some gates, and what is made of them."""
        gates, step = phase.gates, self._step()
        wide = max(1, min(_most_sums(self.dot) // len(gates), 4, self.blocks))
        width, w = self.dot.width, self.buffers["w"]

        def _weights(first: Expr, j: int, k: Expr) -> Expr:
            gate = T.int64(gates[j % len(gates)])
            return w[first + j // len(gates), k, gate, ramp(LANES * width)]

        def _blocks(first: Expr, count: int) -> None:
            (sums,) = accumulate(
                self.dot,
                Tile(rows=1, blocks=count * len(gates)),
                self.steps,
                lambda _, k: self.multiplied[ramp(width, k * width)],
                lambda j, k: _weights(first, j, k),
            )
            for j in range(count):
                of_block = dict(zip(gates, sums[j * len(gates) :], strict=False))
                phase.emit(self._elements(first + j, row, of_block, step))

        by_blocks(self.blocks, wide, _blocks)

    def _step(self) -> Expr | None:
        """Bind what a step of the multiplied state is worth; None of floats."""
        if not self.spec.quantized:
            return None
        return T.Bind(bodies.step_of(self.top[T.int64(0)]))

    def _elements(
        self, block: Expr, row: Expr, sums: dict[int, Expr], step: Expr | None
    ) -> Elements:
        """Return a block of the state, whose products are ``sums``, by gate."""
        here, lanes = [ramp(LANES, block * LANES)], ramp(LANES)

        def _constant(name: str, gate: int) -> Expr:
            return self.buffers[name][block, T.int64(gate), lanes]

        def _added(gate: int, addend: Expr) -> Expr:
            if step is None:
                return addend + sums[gate]
            acc = sums[gate] + _constant("start", gate)
            return bodies.added(acc, _constant("scale", gate), step, addend)

        return Elements(
            inputs=lambda gate: self._inputs_of(row, gate, block),
            added=_added,
            bias=lambda: _constant("bias", 0),
            load=lambda name: T.Bind(self.held[name][tuple(here)]),
            store=lambda name, value: T.buffer_store(self.held[name], value, here),
            scope="global",
        )

    def _inputs_of(self, row: Expr, gate: int, block: Expr) -> Expr:
        if self.inputs is not None:
            return self.inputs[T.int64(gate), ramp(LANES, block * LANES)]
        first = (row * self.spec.gates + gate) * self.spec.hidden
        return self.x[ramp(LANES, first + block * LANES)]

    def _begin(self) -> None:
        """Emit the state before the first step: zeros, or what is given."""
        for state in self.held.values():
            with T.serial(T.int64(self.blocks)) as block:
                T.buffer_store(state, _zeros(), [ramp(LANES, block * LANES)])
        if self.inputs is not None:
            with T.grid(T.int64(self.spec.gates), T.int64(self.blocks)) as (gate, block):
                T.buffer_store(self.inputs, _zeros(), [gate, ramp(LANES, block * LANES)])
        for name in self.spec.states:
            with T.serial(T.int64(self.spec.hidden)) as k:
                T.buffer_store(self.held[name], self.buffers[name][self.n, k], [k])
        self._multiply_next(self.held["h"])

    def _copy_inputs(self, row: Expr) -> None:
        """Emit the copy of a step's inputs, where they are no whole vectors."""
        if self.inputs is None:
            return
        with T.grid(T.int64(self.spec.gates), T.int64(self.spec.hidden)) as (gate, k):
            element = self.x[(row * self.spec.gates + gate) * self.spec.hidden + k]
            T.buffer_store(self.inputs, element, [gate, k])

    def _multiply_next(self, state: Any) -> None:
        """Emit what the next products multiply, and of integers its largest element."""
        if self.spec.quantized:
            self._round(state, self._largest(state))
            return
        with T.serial(T.int64(self.blocks)) as block:
            here = ramp(LANES, block * LANES)
            T.buffer_store(self.multiplied, state[here], [here])

    def _largest(self, state: Any) -> Expr:
        """Emit ``top``; return it."""
        most, lanes = allocate("most", (LANES,), "float32"), ramp(LANES)
        least = splat(LEAST_STATE, "float32", LANES)
        T.buffer_store(most, least, [lanes])
        with T.serial(T.int64(self.blocks)) as block:
            magnitude = bodies.magnitude(T.Bind(state[ramp(LANES, block * LANES)]))
            T.buffer_store(most, tirx.max(most[lanes], magnitude), [lanes])
        top = T.Bind(joined(most[lanes], tirx.max))
        T.buffer_store(self.top, top, [T.int64(0)])
        return top

    def _round(self, state: Any, top: Expr) -> None:
        dtype = str(self.multiplied.dtype)
        shift = splat(SIGN if dtype == "uint8" else 0, "int32", LANES)
        with T.serial(T.int64(self.blocks)) as block:
            here = ramp(LANES, block * LANES)
            q = bodies.rounded(state[here], top)
            T.buffer_store(self.multiplied, cast(q + shift, dtype), [here])

    def _write(self, state: Any, row: Expr) -> None:
        """Emit a row of y."""
        whole_blocks, rest = divmod(self.spec.hidden, LANES)

        def _store(first: Expr, count: int) -> None:
            value = stored(self.spec, state[ramp(count, first)], self.buffers)
            T.buffer_store(self.y, value, [ramp(count, row * self.spec.hidden + first)])

        if whole_blocks:
            with T.serial(T.int64(whole_blocks)) as block:
                _store(block * LANES, LANES)
        if rest:
            with T.serial(T.int64(rest)) as k:
                _store(whole_blocks * LANES + k, 1)

    def _state(self, name: str, dtype: str = "float32") -> Any:
        return allocate(name, (self.blocks * LANES,), dtype)

    def _inputs(self) -> Any | None:
        """Declare a copy of a step's inputs, where these do not lie in whole vectors."""
        if self.spec.hidden % LANES == 0:
            return None
        return allocate("inputs", (self.spec.gates, self.blocks * LANES), "float32")


def _most_sums(dot: Dot) -> int:
    """Return how many sums of 16 lanes stay in registers."""
    if dot.float32:
        return 8
    return 16 if dot.feature == "avx512vnni" else 4


def _zeros() -> Expr:
    return splat(0, "float32", LANES)
