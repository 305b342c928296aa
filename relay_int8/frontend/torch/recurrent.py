"""Recurrent layers, unrolled over a sequence of known length.

The input of all steps goes through one dense layer; each step has one for the state, and
element-wise operators for the gates:

    LSTM:  i, f, g, o = gates(x) + gates(h);  c = s(f) * c + s(i) * tanh(g);  h = s(o) * tanh(c)
    GRU:   r, z = s(of x + of h);  n = tanh(n_x + r * n_h);  h = n + z * (h - n)
    RNN:   h = tanh(of x + of h), or max(..., 0)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import relax

from relay_int8.frontend.torch.step import Converter, Result, Step
from relay_int8.graph.dataflow import constant, shape

MOST_STEPS = 2048  # each is a dense layer with kernels of its own

State = list[relax.Expr | None]  # None stands for zeros
Cell = Callable[[Step, relax.Expr, relax.Expr | None, State], list[relax.Expr]]


def _parts(step: Step, x: relax.Expr, count: int) -> list[relax.Expr]:
    """Return the gates, which lie one behind the other."""
    axis = len(shape(x)) - 1
    size = shape(x)[axis] // count
    return [
        step.emit("gate", relax.op.strided_slice(x, [axis], [i * size], [(i + 1) * size]))
        for i in range(count)
    ]


def _sum(step: Step, a: relax.Expr, b: relax.Expr | None) -> relax.Expr:
    return a if b is None else step.emit("sum", relax.op.add(a, b))


def _lstm_cell(step: Step, x: relax.Expr, h: relax.Expr | None, state: State) -> list[relax.Expr]:
    i, f, g, o = _parts(step, _sum(step, x, h), 4)
    i, f, o = (step.emit("sigmoid", relax.op.sigmoid(gate)) for gate in (i, f, o))
    cell = step.emit("new", relax.op.multiply(i, step.emit("tanh", relax.op.tanh(g))))
    if state[1] is not None:
        cell = _sum(step, step.emit("old", relax.op.multiply(f, state[1])), cell)
    shown = step.emit("tanh", relax.op.tanh(cell))
    return [step.emit("hidden", relax.op.multiply(o, shown)), cell]


def _gru_cell(step: Step, x: relax.Expr, h: relax.Expr | None, state: State) -> list[relax.Expr]:
    inputs = _parts(step, x, 3)
    states = [None] * 3 if h is None else _parts(step, h, 3)
    r, z = (
        step.emit("sigmoid", relax.op.sigmoid(_sum(step, a, b)))
        for a, b in zip(inputs[:2], states[:2], strict=True)
    )
    reset = None if states[2] is None else step.emit("reset", relax.op.multiply(r, states[2]))
    new = step.emit("tanh", relax.op.tanh(_sum(step, inputs[2], reset)))
    apart = relax.op.negative(new) if state[0] is None else relax.op.subtract(state[0], new)
    kept = step.emit("kept", relax.op.multiply(z, step.emit("apart", apart)))
    return [step.emit("hidden", relax.op.add(kept, new))]


def _plain_cell(activate: Callable[[relax.Expr], relax.Expr]) -> Cell:
    def _cell(step: Step, x: relax.Expr, h: relax.Expr | None, _: State) -> list[relax.Expr]:
        return [step.emit("hidden", activate(_sum(step, x, h)))]

    return _cell


@dataclass(frozen=True)
class _Kind:
    """A kind of layer: its gates, how many tensors its state is, and what a step computes."""

    gates: int
    states: int
    cell: Cell


def _recurrent(kind: _Kind) -> Converter:
    """Run layers one after the other; the directions of a layer read the same sequence."""

    def _convert(step: Step) -> Result:
        _refuse(step)
        layers, directions = step.integer("num_layers"), 1 + step.flag("bidirectional", False)
        time = 1 if step.flag("batch_first", False) else 0
        x, initial = step.x, _initial(step, kind.states)
        weights = _weights(step, layers * directions)
        if len(shape(x)) != 3:
            raise ValueError(f"its input is {shape(x)}, expected a batch of sequences")
        if (cells := shape(x)[time] * layers * directions) > MOST_STEPS:
            raise NotImplementedError(
                f"{cells} steps of its layers; at most {MOST_STEPS} are unrolled: export it with "
                "shorter sequences"
            )
        last: list[list[relax.Expr]] = []
        for layer in range(layers):
            outputs = []
            for direction in range(directions):
                place = layer * directions + direction
                state = [_at(step, tensor, place) for tensor in initial]
                run = _Run(step, kind, weights[place], time, backward=bool(direction))
                found, state_after = run.over(x, state)
                outputs.append(found)
                last.append(state_after)
            x = outputs[0]
            if directions > 1:
                x = step.emit("directions", relax.op.concat(outputs, 2))
        return [x, *(_stacked(step, states, 0) for states in zip(*last, strict=True))]

    return _convert


def _refuse(step: Step) -> None:
    if "batch_sizes" in step.arguments:
        raise NotImplementedError(
            "packed sequences: export the model without pack_padded_sequence, for padded ones"
        )
    if step.flag("train", False) and step.real("dropout", 0.0):
        raise ValueError("it is in training mode: call model.eval() before the export")


def _initial(step: Step, count: int) -> list[relax.Expr]:
    """Return the states before the first step, of all layers and directions."""
    tensors = (
        step.tensors("hx") if isinstance(step.arguments.get("hx"), list) else [step.tensor("hx")]
    )
    if len(tensors) != count or any(len(shape(tensor)) != 3 for tensor in tensors):
        raise ValueError(f"its states are {[shape(tensor) for tensor in tensors]}")
    return tensors


def _weights(step: Step, runs: int) -> list[list[relax.Expr]]:
    """Return the weights of every layer and direction: of input and state, then the biases."""
    found, count = step.tensors("params"), 4 if step.flag("has_biases", True) else 2
    if len(found) == (count + 1) * runs:
        raise NotImplementedError(
            "it projects its state (proj_size): program.run_decompositions() before "
            "torch.export.save writes its steps out"
        )
    if len(found) != count * runs:
        raise ValueError(f"{len(found)} weights of {runs} layers and directions")
    return [found[begin : begin + count] for begin in range(0, len(found), count)]


def _at(step: Step, states: relax.Expr, place: int) -> relax.Expr | None:
    """Return the state of a layer and direction, or None where it is zero."""
    array = constant(states)
    if array is not None and not array.any():
        return None
    part = step.emit("state", relax.op.strided_slice(states, [0], [place], [place + 1]))
    return step.emit("state", relax.op.reshape(part, shape(states)[1:]))


def _stacked(
    step: Step, tensors: list[relax.Expr] | tuple[relax.Expr, ...], axis: int
) -> relax.Expr:
    parts = [step.emit("step", relax.op.expand_dims(tensor, axis)) for tensor in tensors]
    return step.emit("steps", relax.op.concat(parts, axis))


@dataclass(frozen=True)
class _Run:
    """One layer in one direction."""

    step: Step
    kind: _Kind
    weights: list[relax.Expr]
    time: int
    backward: bool

    def over(self, x: relax.Expr, state: State) -> tuple[relax.Expr, list[relax.Expr]]:
        """Return the outputs of all steps in order of time, and the state after the last."""
        of_input, of_state, *biases = self.weights
        gates, emit = self.kind.gates, self.step.emit
        if len(shape(of_state)) != 2 or shape(of_state)[0] != gates * shape(of_state)[1]:
            raise ValueError(f"its weights of the state are {shape(of_state)}, of {gates} gates")
        input_bias, state_bias = biases or (None, None)
        inputs = _dense(self.step, x, _turned(self.step, of_input), input_bias)
        sizes = [size for axis, size in enumerate(shape(inputs)) if axis != self.time]
        turned = _turned(self.step, of_state)
        outputs: dict[int, relax.Expr] = {}
        places = range(shape(x)[self.time])
        for place in reversed(places) if self.backward else places:
            part = relax.op.strided_slice(inputs, [self.time], [place], [place + 1])
            now = emit("input", relax.op.reshape(emit("step", part), sizes))
            h = state[0]
            before = state_bias if h is None else _dense(self.step, h, turned, state_bias)
            state = list(self.kind.cell(self.step, now, before, state))
            outputs[place] = state[0]
        found = _stacked(self.step, [outputs[place] for place in places], self.time)
        return found, [tensor for tensor in state if tensor is not None]


def _turned(step: Step, weights: relax.Expr) -> relax.Expr:
    return step.emit("weight", relax.op.permute_dims(weights, [1, 0]))


def _dense(step: Step, x: relax.Expr, w: relax.Expr, bias: relax.Expr | None) -> relax.Expr:
    product = step.emit("matmul", relax.op.matmul(x, w))
    return product if bias is None else step.emit("dense", relax.op.add(product, bias))


RECURRENT: dict[str, Converter] = {
    "gru": _recurrent(_Kind(3, 1, _gru_cell)),
    "lstm": _recurrent(_Kind(4, 2, _lstm_cell)),
    "rnn_relu": _recurrent(_Kind(1, 1, _plain_cell(relax.op.nn.relu))),
    "rnn_tanh": _recurrent(_Kind(1, 1, _plain_cell(relax.op.tanh))),
}
