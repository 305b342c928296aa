"""MXNet's recurrent layers; ``frontend.recurrent`` has what they become.

All weights are one vector: for each layer and direction those of the input and those of the
state, then for each the two biases.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.frontend.recurrent import check_steps, in_sequence, part_of_state, run_layer
from relay_int8.frontend.recurrent_cells import (
    GruCell,
    LstmCell,
    PlainCell,
    RecurrentCell,
    RecurrentWeights,
    relu,
)
from relay_int8.graph.dataflow import constant, shape

CELLS: dict[str, RecurrentCell] = {
    "gru": GruCell("rz"),
    "lstm": LstmCell("ifgo"),
    "rnn_relu": PlainCell(relu),
    "rnn_tanh": PlainCell(),
}


def _rnn(step: MxnetStep) -> list[relax.Expr]:
    """Run layers one after the other; the directions of a layer read the same sequence."""
    attrs = step.attributes
    mode = attrs.text("mode")
    if mode not in CELLS:
        raise ValueError(f"its mode is {mode!r}, not one of {', '.join(CELLS)}")
    _refuse(step)
    cell, layers = CELLS[mode], attrs.integer("num_layers", least=1)
    directions = 1 + attrs.flag("bidirectional", False)
    x, parameters, *states = step.inputs
    if len(shape(x)) != 3 or len(states) != (2 if mode == "lstm" else 1):
        raise ValueError(f"its input is {list(shape(x))}, its states are {len(states)}")
    weights = _weights(step, parameters, cell.gates, shape(x)[2], layers, directions)
    check_steps(shape(x)[0] * layers * directions)
    last: list[list[relax.Expr]] = []
    for layer in range(layers):
        sequences = []
        for direction in range(directions):
            index = layer * directions + direction
            outputs, after = run_layer(
                step.emit,
                cell,
                weights[index],
                x,
                [part_of_state(step.emit, state, 0, index) for state in states],
                time=0,
                is_backward=bool(direction),
            )
            sizes = [*shape(x)[:2], shape(outputs[0])[1]]
            sequences.append(in_sequence(step.emit, outputs, 0, sizes))
            last.append(after)
        x = sequences[0]
        if directions > 1:
            x = step.emit("directions", relax.op.concat(sequences, 2))
    stacked = [
        in_sequence(step.emit, state, 0, [len(state), *shape(state[0])])
        for state in zip(*last, strict=True)
    ]
    return [x, *(stacked if attrs.flag("state_outputs", False) else [])]


def _refuse(step: MxnetStep) -> None:
    attrs = step.attributes
    if "projection_size" in attrs or "lstm_state_clip_min" in attrs:
        raise NotImplementedError("a state that is projected or clipped")
    if attrs.flag("use_sequence_length", False):
        raise NotImplementedError("sequences that are shorter than the tensor")


def _weights(
    step: MxnetStep,
    parameters: relax.Expr,
    gates: int,
    width: int,
    layers: int,
    directions: int,
) -> list[RecurrentWeights]:
    """Return the weights of every layer and direction, cut out of the vector."""
    vector, hidden = constant(parameters), step.attributes.integer("state_size", least=1)
    if vector is None:
        raise NotImplementedError("weights that are computed, not constant")
    widths = [width if layer == 0 else hidden * directions for layer in range(layers)]
    rows = gates * hidden
    sizes = [size for width in widths for size in (rows * width, rows * hidden) * directions]
    sizes += [rows] * (2 * layers * directions)
    if vector.ndim != 1 or vector.size != sum(sizes):
        raise ValueError(f"{vector.size} weights; {layers} layers of {hidden} have {sum(sizes)}")
    parts = np.split(vector, np.cumsum(sizes)[:-1])
    matrices = [relax.const(part.reshape(rows, -1)) for part in parts[: 2 * layers * directions]]
    biases = [relax.const(part) for part in parts[2 * layers * directions :]]
    return [
        RecurrentWeights(*matrices[begin : begin + 2], *biases[begin : begin + 2])
        for begin in range(0, len(matrices), 2)
    ]


def _weight_vector(step: MxnetStep) -> relax.Expr:
    """Join weights, one behind the other."""
    parts = [constant(part) for part in step.inputs]
    known = [np.reshape(part, -1) for part in parts if part is not None]
    if len(known) != len(parts):
        raise NotImplementedError("weights that are computed, not constant")
    return relax.const(np.concatenate(known))


RECURRENT: dict[str, Converter] = {"RNN": _rnn, "_rnn_param_concat": _weight_vector}
