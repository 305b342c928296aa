"""ONNX's LSTM, GRU and RNN: loops where ``frontend.recurrent_loops`` has them, else unrolled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.frontend.recurrent import (
    check_shapes,
    check_steps,
    in_sequence,
    part_of_state,
    run_layer,
)
from relay_int8.frontend.recurrent_cells import (
    Activation,
    GruCell,
    LstmCell,
    PlainCell,
    RecurrentCell,
    RecurrentWeights,
    clipped,
    hard_sigmoid,
    relu,
    sigmoid,
    tanh,
)
from relay_int8.frontend.recurrent_loops import RecurrentLoop, loop_of
from relay_int8.graph.dataflow import constant, shape

Attributes = dict[str, Any]

DIRECTIONS = {b"forward": (False,), b"reverse": (True,), b"bidirectional": (False, True)}
"""Of each, whether its layers read the sequence from its end."""

PLAIN_ACTIVATIONS = {"sigmoid": sigmoid, "tanh": tanh, "relu": relu}
"""By lower-case names, as ONNX Runtime compares them."""

MEMORY = 2
"""Index of LSTM's h among its activations; ONNX Runtime does not clip its input, the memory."""

PEEPHOLES = "iof"
"""How the operand P of LSTM has them."""


def lstm(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Read an LSTM: X, W, R, B, sequence_lens, initial_h, initial_c, P."""
    node = _Node(bb, inputs, attributes)
    functions = _activations(attributes, node.count, ("Sigmoid", "Tanh", "Tanh"))
    is_coupled = bool(attributes.get("input_forget", 0))
    cells = [
        LstmCell("iofg", gate, content, shown, node.peepholes(index), is_coupled)
        for index, (gate, content, shown) in enumerate(functions)
    ]
    return node.run(cells, [5, 6])


def gru(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Read a GRU: X, W, R, B, sequence_lens, initial_h."""
    node = _Node(bb, inputs, attributes)
    functions = _activations(attributes, node.count, ("Sigmoid", "Tanh"))
    resets_product = bool(attributes.get("linear_before_reset", 0))
    cells = [GruCell("zr", gate, content, resets_product) for gate, content in functions]
    return node.run(cells, [5])


def rnn(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Read an RNN: X, W, R, B, sequence_lens, initial_h."""
    node = _Node(bb, inputs, attributes)
    functions = _activations(attributes, node.count, ("Tanh",))
    return node.run([PlainCell(activation) for (activation,) in functions], [5])


@dataclass(frozen=True)
class _Node:
    """Operands and attributes of a recurrent node, common to LSTM, GRU and RNN."""

    bb: relax.BlockBuilder
    inputs: list[Any]
    attributes: Attributes

    @property
    def are_backward(self) -> tuple[bool, ...]:
        """Return, of each direction, whether it reads the sequence from its end."""
        direction = self.attributes.get("direction", b"forward")
        if direction not in DIRECTIONS:
            known = ", ".join(name.decode() for name in DIRECTIONS)
            raise ValueError(f"its direction is {direction.decode()}; expected one of {known}")
        return DIRECTIONS[direction]

    @property
    def count(self) -> int:
        """Return how many directions there are."""
        return len(self.are_backward)

    def run(self, cells: list[Any], states: list[int]) -> relax.Expr:
        """Return Y and the last states, as many as the node names; ``states`` are operands."""
        x, time = self.inputs[0], int(bool(self.attributes.get("layout", 0)))
        if len(shape(x)) != 3:
            raise ValueError(f"its input is {list(shape(x))}, expected a batch of sequences")
        steps, batch = shape(x)[time], shape(x)[1 - time]
        self._check_lengths(steps)
        parts = [self._direction(index, cell, states, time) for index, cell in enumerate(cells)]
        loops = [loop_of(self._emit, **part, time=time) for part in parts]
        if not any(loop is None for loop in loops):
            return relax.Tuple(self._looped([loop for loop in loops if loop is not None]))
        check_steps(steps * self.count)
        directions = [run_layer(self._emit, **part, time=time) for part in parts]
        hidden = shape(directions[0][0][0])[1]
        # (steps, directions, batch, hidden), or (batch, steps, directions, hidden)
        in_order = [outputs[step] for step in range(steps) for outputs, _ in directions]
        sizes = [steps, self.count, hidden]
        sizes.insert(2 * (1 - time), batch)
        count = self.attributes["tvm_custom"]["num_outputs"]
        results = [in_sequence(self._emit, in_order, time, sizes)]
        for tensors in list(zip(*(last for _, last in directions), strict=True))[: count - 1]:
            sizes = [self.count, hidden]
            sizes.insert(1 - time, batch)
            results.append(in_sequence(self._emit, tensors, time, sizes))
        return relax.Tuple(results)

    def _looped(self, loops: list[RecurrentLoop]) -> list[relax.Expr]:
        """Return Y and the last states of directions that are loops."""
        spec, count = loops[0].spec, self.attributes["tvm_custom"]["num_outputs"]
        outputs = [loop.outputs(self._emit) for loop in loops]
        # (steps, directions, batch, hidden), or (batch, steps, directions, hidden)
        axis = 1 + spec.time
        each = [*shape(outputs[0])[:axis], 1, *shape(outputs[0])[axis:]]
        shaped = [self._emit("direction", relax.op.reshape(one, each)) for one in outputs]
        results = [shaped[0]]
        if self.count > 1:
            results = [self._emit("sequence", relax.op.concat(shaped, axis))]
        sizes = [self.count, spec.hidden]
        sizes.insert(1 - spec.time, spec.batch)
        if count > 1:
            last = [loop.last(self._emit, one) for loop, one in zip(loops, outputs, strict=True)]
            results.append(in_sequence(self._emit, last, spec.time, sizes))
        if count > 2:
            memories = [loop.memory(self._emit) for loop in loops]
            results.append(in_sequence(self._emit, memories, spec.time, sizes))
        return results

    def peepholes(self, index: int) -> tuple[relax.Expr, relax.Expr, relax.Expr] | None:
        """Return the factors of the memory for i, f and o."""
        whole = self._row(7, index)
        if whole is None:
            return None
        hidden = shape(self.inputs[2])[-1]
        if shape(whole) != (len(PEEPHOLES) * hidden,):
            raise ValueError(
                f"its peepholes are {shape(whole)}, expected {(len(PEEPHOLES) * hidden,)}"
            )
        parts = {}
        for row, gate in enumerate(PEEPHOLES):
            begin = row * hidden
            part = relax.op.strided_slice(whole, [0], [begin], [begin + hidden])
            parts[gate] = self._emit("peephole", part)
        return parts["i"], parts["f"], parts["o"]

    def _direction(
        self, index: int, cell: RecurrentCell, states: list[int], time: int
    ) -> dict[str, Any]:
        """Return the arguments that a direction is run with, checked."""
        of_input, of_state, bias = (self._row(operand, index) for operand in (1, 2, 3))
        if of_input is None or of_state is None:
            raise ValueError("it has no weights (operands W and R)")
        initial = [self._given(operand) for operand in states]
        biases = [None, None] if bias is None else self._halves(bias)
        weights = RecurrentWeights(of_input, of_state, *biases)
        state = [s if s is None else part_of_state(self._emit, s, time, index) for s in initial]
        check_shapes(cell, weights, self.inputs[0], state, time)
        return {
            "cell": cell,
            "weights": weights,
            "x": self.inputs[0],
            "state": state,
            "is_backward": self.are_backward[index],
        }

    def _halves(self, bias: relax.Expr) -> list[relax.Expr]:
        half, array = shape(bias)[0] // 2, constant(bias)
        if array is not None:
            return [relax.const(part) for part in (array[:half], array[half:])]
        return [
            self._emit("bias", relax.op.strided_slice(bias, [0], [begin], [begin + half]))
            for begin in (0, half)
        ]

    def _row(self, operand: int, index: int) -> relax.Expr | None:
        """Return what an operand has for a direction."""
        whole = self._given(operand)
        if whole is None:
            return None
        sizes = shape(whole)
        if sizes[0] != self.count:
            raise ValueError(f"operand {operand} is {list(sizes)}, of {self.count} directions")
        array = constant(whole)
        if array is not None:
            return relax.const(np.ascontiguousarray(array[index]))
        row = self._emit("row", relax.op.strided_slice(whole, [0], [index], [index + 1]))
        return self._emit("row", relax.op.reshape(row, sizes[1:]))

    def _check_lengths(self, steps: int) -> None:
        """Refuse sequences that are shorter than the tensor that holds them."""
        given = self._given(4)
        if given is None:
            return
        lengths = constant(given)
        if lengths is None:
            raise NotImplementedError(
                "its sequence_lens are computed, not constant: export it with sequences of one "
                "length and without sequence_lens"
            )
        if (lengths != steps).any():
            raise NotImplementedError(
                f"its sequence_lens are {lengths.reshape(-1).tolist()} of {steps} steps; only "
                "sequences of all steps are read"
            )

    def _given(self, operand: int) -> Any:
        return self.inputs[operand] if operand < len(self.inputs) else None

    def _emit(self, _: str, value: relax.Expr) -> relax.Expr:
        return self.bb.emit(value)


def _activations(
    attributes: Attributes, directions: int, defaults: tuple[str, ...]
) -> list[list[Activation]]:
    """Return the functions of each direction, their inputs clipped where the node says so."""
    names = [name.decode() for name in attributes.get("activations", ())] or [
        *defaults
    ] * directions
    if len(names) != len(defaults) * directions:
        raise ValueError(
            f"its activations are {names}; expected {len(defaults)} for each of {directions} "
            "directions"
        )
    scales = iter(attributes.get("activation_alpha", ()))
    shifts = iter(attributes.get("activation_beta", ()))
    functions = [_activation(name, scales, shifts) for name in names]
    bound = float(attributes.get("clip", 0.0))
    per = len(defaults)
    if bound > 0:
        functions = [
            function if index % per == MEMORY else clipped(function, bound)
            for index, function in enumerate(functions)
        ]
    return [functions[begin : begin + per] for begin in range(0, len(functions), per)]


def _activation(name: str, scales: Iterator[float], shifts: Iterator[float]) -> Activation:
    """Return a function by its name; those that have alpha and beta take the next ones."""
    if name.lower() == "hardsigmoid":
        return hard_sigmoid(float(next(scales, 0.2)), float(next(shifts, 0.5)))
    if name.lower() not in PLAIN_ACTIVATIONS:
        raise NotImplementedError(
            f"its activation is {name}; only Sigmoid, Tanh, Relu and HardSigmoid are read"
        )
    return PLAIN_ACTIVATIONS[name.lower()]
