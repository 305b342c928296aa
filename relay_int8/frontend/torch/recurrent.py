"""Recurrent layers of PyTorch: loops where ``frontend.recurrent_loops`` has them, else unrolled."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm import relax

from relay_int8.frontend.recurrent import (
    check_shapes,
    check_steps,
    in_sequence,
    part_of_state,
    run_layer,
)
from relay_int8.frontend.recurrent_cells import (
    GruCell,
    LstmCell,
    PlainCell,
    RecurrentCell,
    RecurrentWeights,
    State,
    relu,
    transposed,
)
from relay_int8.frontend.recurrent_loops import loop_of
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import shape


@dataclass(frozen=True)
class _Kind:
    """A kind of recurrent layer: its cell, and the number of tensors of its state."""

    cell: RecurrentCell
    states: int


def _recurrent(kind: _Kind) -> Converter:
    """Run layers one after the other; the directions of a layer read the same sequence."""

    def _convert(step: TorchStep) -> Result:
        _refuse(step)
        layers, directions = step.integer("num_layers"), 1 + step.flag("bidirectional", False)
        time = 1 if step.flag("batch_first", False) else 0
        x, initial = step.x, _initial(step, kind.states)
        weights, cells = _weights(step, kind.cell, layers * directions)
        if len(shape(x)) != 3:
            raise ValueError(f"its input is {shape(x)}, expected a batch of sequences")
        last: list[list[relax.Expr]] = []
        for layer in range(layers):
            sequences = []
            for direction in range(directions):
                index = layer * directions + direction
                state = [part_of_state(step.emit, tensor, 0, index) for tensor in initial]
                check_shapes(cells[index], weights[index], x, state, time)
                run = _Run(step, cells[index], weights[index], x, state, time, bool(direction))
                outputs, state_after = run.looped() or run.unrolled(layers * directions)
                sequences.append(outputs)
                last.append(state_after)
            x = sequences[0]
            if directions > 1:
                x = step.emit("directions", relax.op.concat(sequences, 2))
        return [x, *(_stacked(step, states) for states in zip(*last, strict=True))]

    return _convert


@dataclass(frozen=True)
class _Run:
    """One layer in one direction; each way to run it returns the sequence and the last state."""

    step: TorchStep
    cell: RecurrentCell
    weights: RecurrentWeights
    x: relax.Expr
    state: State
    time: int
    is_backward: bool

    def looped(self) -> tuple[relax.Expr, list[relax.Expr]] | None:
        """Return what a loop of steps gives, or None where they have to be unrolled."""
        emit = self.step.emit
        loop = loop_of(
            emit,
            self.cell,
            self.weights,
            self.x,
            self.state,
            time=self.time,
            is_backward=self.is_backward,
        )
        if loop is None:
            return None
        outputs = loop.outputs(emit)
        memory = [loop.memory(emit)] if len(self.state) > 1 else []
        return outputs, [loop.last(emit, outputs), *memory]

    def unrolled(self, runs: int) -> tuple[relax.Expr, list[relax.Expr]]:
        """Return what steps one by one give; all ``runs`` of the layers are like this one."""
        check_steps(shape(self.x)[self.time] * runs)
        outputs, last = run_layer(
            self.step.emit,
            self.cell,
            self.weights,
            self.x,
            self.state,
            time=self.time,
            is_backward=self.is_backward,
        )
        sizes = [*shape(self.x)[:2], shape(outputs[0])[1]]
        return in_sequence(self.step.emit, outputs, self.time, sizes), last


def _cell(kind: _Kind) -> Converter:
    """Run one step, of (batch, input) and states of (batch, hidden)."""

    def _convert(step: TorchStep) -> Result:
        x, state = step.tensor("input"), _states(step, kind.states, 2)
        weights = RecurrentWeights(
            step.tensor("w_ih"),
            step.tensor("w_hh"),
            step.optional_tensor("b_ih"),
            step.optional_tensor("b_hh"),
        )
        if len(shape(x)) != 2:
            raise ValueError(f"its input is {shape(x)}, expected a batch of vectors")
        sequence = step.emit("sequence", relax.op.expand_dims(x, 0))
        check_shapes(kind.cell, weights, sequence, state, 0)
        outputs, last = run_layer(
            step.emit, kind.cell, weights, sequence, state, time=0, is_backward=False
        )
        return last if kind.states > 1 else outputs[0]

    return _convert


def _refuse(step: TorchStep) -> None:
    if "batch_sizes" in step.arguments:
        raise NotImplementedError(
            "packed sequences: export the model without pack_padded_sequence, for padded ones"
        )
    if step.flag("train", False) and step.real("dropout", 0.0):
        raise ValueError("it is in training mode: call model.eval() before the export")


def _initial(step: TorchStep, count: int) -> list[relax.Expr]:
    """Return the states before the first step, of all layers and directions."""
    return _states(step, count, 3)


def _states(step: TorchStep, count: int, rank: int) -> list[relax.Expr]:
    tensors = (
        step.tensors("hx") if isinstance(step.arguments.get("hx"), list) else [step.tensor("hx")]
    )
    if len(tensors) != count or any(len(shape(tensor)) != rank for tensor in tensors):
        raise ValueError(f"its states are {[shape(tensor) for tensor in tensors]}")
    return tensors


def _weights(
    step: TorchStep, cell: RecurrentCell, runs: int
) -> tuple[list[RecurrentWeights], list[RecurrentCell]]:
    """Return the weights of every layer and direction, and its cell.

    A layer has weights of input and state, then the biases, then what projects its output.
    """
    params, count = step.tensors("params"), 4 if step.flag("has_biases", True) else 2
    each = len(params) // runs
    is_projected = isinstance(cell, LstmCell) and each == count + 1
    if len(params) != each * runs or not (each == count or is_projected):
        raise ValueError(f"{len(params)} weights of {runs} layers and directions")
    rows = [params[begin : begin + each] for begin in range(0, len(params), each)]
    weights = [RecurrentWeights(*row[:count]) for row in rows]
    if not isinstance(cell, LstmCell) or not is_projected:
        return weights, [cell] * runs
    projections = [transposed(step.emit, row[count]) for row in rows]
    return weights, [replace(cell, projection=projection) for projection in projections]


def _stacked(step: TorchStep, states: tuple[relax.Expr, ...]) -> relax.Expr:
    return in_sequence(step.emit, states, 0, [len(states), *shape(states[0])])


KINDS = {
    "gru": _Kind(GruCell("rz"), 1),
    "lstm": _Kind(LstmCell("ifgo"), 2),
    "rnn_relu": _Kind(PlainCell(relu), 1),
    "rnn_tanh": _Kind(PlainCell(), 1),
}
RECURRENT: dict[str, Converter] = {name: _recurrent(kind) for name, kind in KINDS.items()} | {
    f"{name}_cell": _cell(kind) for name, kind in KINDS.items()
}
