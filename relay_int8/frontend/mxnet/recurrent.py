"""MXNet's recurrent layers; ``frontend.recurrent`` has what they become.

All weights are one vector: for each layer and direction those of the input, those of the state and
those that project the output, if there are such; then for each the two biases.
"""

from __future__ import annotations

import math
from dataclasses import replace

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
    weights, cells = _weights(step, parameters, cell, shape(x)[2], layers, directions)
    check_steps(shape(x)[0] * layers * directions)
    last: list[list[relax.Expr]] = []
    for layer in range(layers):
        sequences = []
        for direction in range(directions):
            index = layer * directions + direction
            outputs, after = run_layer(
                step.emit,
                cells[index],
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
    if "lstm_state_clip_min" in attrs:
        raise NotImplementedError("a state that is clipped")
    if "projection_size" in attrs and attrs.text("mode") != "lstm":
        raise ValueError("it projects the output of a layer that is no LSTM")
    if attrs.flag("use_sequence_length", False):
        raise NotImplementedError("sequences that are shorter than the tensor")


def _weights(
    step: MxnetStep,
    parameters: relax.Expr,
    cell: RecurrentCell,
    width: int,
    layers: int,
    directions: int,
) -> tuple[list[RecurrentWeights], list[RecurrentCell]]:
    """Return the weights of every layer and direction, cut out of the vector, and its cell."""
    vector, hidden = constant(parameters), step.attributes.integer("state_size", least=1)
    projected = step.attributes.integer("projection_size", 0, least=0)
    output, rows = projected or hidden, cell.gates * hidden
    if vector is None:
        raise NotImplementedError("weights that are computed, not constant")
    each = [(rows, output), *([(projected, hidden)] if projected else [])]
    shapes = [
        dims
        for layer in range(layers)
        for dims in [(rows, output * directions if layer else width), *each] * directions
    ]
    sizes = [math.prod(dims) for dims in shapes] + [rows] * (2 * layers * directions)
    if vector.ndim != 1 or vector.size != sum(sizes):
        raise ValueError(f"{vector.size} weights; {layers} layers of {hidden} have {sum(sizes)}")
    parts = np.split(vector, np.cumsum(sizes)[:-1])
    matrices = [part.reshape(dims) for part, dims in zip(parts, shapes, strict=False)]
    biases = [relax.const(part) for part in parts[len(shapes) :]]
    count = 1 + len(each)
    weights = [
        RecurrentWeights(
            *(relax.const(matrix) for matrix in matrices[index * count :][:2]),
            *biases[2 * index : 2 * index + 2],
        )
        for index in range(layers * directions)
    ]
    if not projected or not isinstance(cell, LstmCell):
        return weights, [cell] * len(weights)
    projections = [np.ascontiguousarray(matrix.T) for matrix in matrices[2::3]]
    return weights, [replace(cell, projection=relax.const(matrix)) for matrix in projections]


def _weight_vector(step: MxnetStep) -> relax.Expr:
    """Join weights, one behind the other."""
    parts = [constant(part) for part in step.inputs]
    known = [np.reshape(part, -1) for part in parts if part is not None]
    if len(known) != len(parts):
        raise NotImplementedError("weights that are computed, not constant")
    return relax.const(np.concatenate(known))


RECURRENT: dict[str, Converter] = {"RNN": _rnn, "_rnn_param_concat": _weight_vector}
