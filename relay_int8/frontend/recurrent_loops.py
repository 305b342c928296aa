"""Recurrent layers of any format as one operator, ``schedules.spec.Recurrence``.

Its steps are a loop of the kernel. The inputs of all steps go through one dense layer before it.
What it does not compute (a state of which one part alone is constant, peepholes, other functions,
clipped ones, weights that are computed) and sequences of few steps are unrolled, see
``frontend.recurrent``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.frontend.recurrent_cells import (
    GruCell,
    LstmCell,
    PlainCell,
    RecurrentCell,
    RecurrentWeights,
    State,
    sigmoid,
    tanh,
)
from relay_int8.graph.dataflow import constant, dtype, shape
from relay_int8.graph.spec_calls import kernel_call
from schedules.spec import Cell, Recurrence

FEW_STEPS = 8  # so many are unrolled: their operators are quantized one by one


@dataclass(frozen=True)
class RecurrentLoop:
    """One layer in one direction, its results not bound yet.

    ``inputs`` is the result of the dense layer in front; ``states`` are the tensors of the state
    before the first step, none if that is zero.
    """

    spec: Recurrence
    inputs: relax.Expr
    states: Sequence[relax.Expr]
    constants: Mapping[str, np.ndarray]

    def outputs(self, emit: Emit) -> relax.Expr:
        """Return those of all steps: (steps, batch, hidden), or (batch, steps, hidden)."""
        return emit("recurrence", kernel_call(self.spec, self._tensors, self.constants))

    def last(self, emit: Emit, outputs: relax.Expr) -> relax.Expr:
        """Return what the last of the steps that it takes gives, (batch, hidden)."""
        axis, index = self.spec.time, 0 if self.spec.backward else self.spec.steps - 1
        row = emit("last", relax.op.strided_slice(outputs, [axis], [index], [index + 1]))
        return emit("last", relax.op.reshape(row, [self.spec.batch, self.spec.hidden]))

    def memory(self, emit: Emit) -> relax.Expr:
        """Return the memory of an LSTM after that step, (batch, hidden), by steps of its own."""
        spec = replace(self.spec, gives="memory")
        return emit("memory", kernel_call(spec, self._tensors, self.constants))

    @property
    def _tensors(self) -> list[relax.Expr]:
        return [self.inputs, *self.states]


def loop_of(
    emit: Emit,
    cell: RecurrentCell,
    weights: RecurrentWeights,
    x: relax.Expr,
    state: State,
    *,
    time: int,
    is_backward: bool,
) -> RecurrentLoop | None:
    """Return a layer as a loop, or None where it has to be unrolled.

    Parameters are those of ``frontend.recurrent.run_layer``.
    """
    gates = _gates(cell)
    arrays = _arrays(weights)
    steps = shape(x)[time]
    states = _states(state)
    if (
        gates is None
        or arrays is None
        or states is None
        or steps <= FEW_STEPS
        or dtype(x) != "float32"
    ):
        return None
    kind, order = gates
    of_input, of_state, input_bias, state_bias = (
        None if array is None else _in_order(array, order) for array in arrays
    )
    assert of_input is not None and of_state is not None
    rows, hidden = of_state.shape
    outer, inner = (
        np.zeros(rows, np.float32) if array is None else array for array in (input_bias, state_bias)
    )
    bias, constants = outer + inner, {"w": of_state}
    if kind == "gru":  # r multiplies the bias of the state's n
        bias[-hidden:], constants["bias"] = outer[-hidden:], np.ascontiguousarray(inner[-hidden:])
    inputs = emit("inputs", relax.op.matmul(x, relax.const(np.ascontiguousarray(of_input.T))))
    if bias.any():
        inputs = emit("inputs", relax.op.add(inputs, relax.const(bias)))
    spec = Recurrence(
        cell=kind,
        batch=shape(x)[1 - time],
        steps=steps,
        hidden=hidden,
        time=time,
        backward=is_backward,
        given=bool(states),
    )
    return RecurrentLoop(spec, inputs, states, constants)


def _gates(cell: RecurrentCell) -> tuple[Cell, list[int]] | None:
    """Return the kind of a cell, and where in its weights the gates of the spec lie; or None."""
    if isinstance(cell, PlainCell) and cell.activation is tanh:
        return "rnn", [0]
    if isinstance(cell, GruCell) and (cell.gate, cell.content) == (sigmoid, tanh):
        order = [cell.order.index(gate) for gate in "rz"]
        return "gru" if cell.resets_product else "gru_state", [*order, 2]
    if isinstance(cell, LstmCell) and cell == LstmCell(cell.order, sigmoid, tanh, tanh):
        return "lstm", [cell.order.index(gate) for gate in "ifgo"]
    return None


def _states(state: State) -> list[relax.Expr] | None:
    """Return the tensors of a state, none of zeros; None where one alone is a constant."""
    given = [tensor for tensor in state if tensor is not None]
    are_constant = {tensor is None or constant(tensor) is not None for tensor in state}
    if not given or len(are_constant) > 1:
        return None if given else []
    zeros = np.zeros(shape(given[0]), np.float32)
    return [relax.const(zeros) if tensor is None else tensor for tensor in state]


def _arrays(weights: RecurrentWeights) -> list[np.ndarray | None] | None:
    """Return weights and biases as arrays, or None where one is computed."""
    given = (weights.of_input, weights.of_state, weights.input_bias, weights.state_bias)
    arrays = [None if value is None else constant(value) for value in given]
    computed = any(v is not None and a is None for v, a in zip(given, arrays, strict=True))
    return None if computed else arrays


def _in_order(array: np.ndarray, order: list[int]) -> np.ndarray:
    """Return rows of gates in another order."""
    gates = array.reshape(len(order), -1, *array.shape[1:])
    return np.ascontiguousarray(gates[order]).reshape(array.shape)
