"""Recurrent layers of any format, unrolled over a sequence of known length.

Those that have a loop of their own are not: see ``frontend.recurrent_loops``.

The inputs of all steps go through one dense layer; each step has one for the state (a GRU that
resets before its product has two), see ``frontend.recurrent_cells``.

The steps lie one behind the other along one axis of a matrix, rows or columns, so that a step is a
slice and a sequence is a concatenation.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.frontend.recurrent_cells import (
    DenseProducts,
    RecurrentCell,
    RecurrentWeights,
    State,
    transposed,
)
from relay_int8.graph.dataflow import constant, shape

MOST_STEPS = 2048  # time steps; each becomes a dense layer with kernels of its own


def check_steps(count: int) -> None:
    """Refuse more steps, of all layers and directions, than are unrolled."""
    if count > MOST_STEPS:
        raise NotImplementedError(
            f"{count} steps of its layers; at most {MOST_STEPS} are unrolled: export it with "
            "shorter sequences"
        )


def run_layer(
    emit: Emit,
    cell: RecurrentCell,
    weights: RecurrentWeights,
    x: relax.Expr,
    state: State,
    *,
    time: int,
    is_backward: bool,
) -> tuple[list[relax.Expr], list[relax.Expr]]:
    """Run one layer in one direction; its shapes have been checked.

    Parameters
    ----------
    x
        A batch of sequences: (steps, batch, input) where ``time`` is 0, (batch, steps, input)
        where it is 1.
    state
        Before the first step, (batch, hidden) each; None for zeros.

    Returns
    -------
    outputs
        Of all steps in order of time, (batch, hidden) each.
    state
        After the last step.
    """
    bias, products = cell.products(emit, weights)
    inputs = DenseProducts(transposed(emit, weights.of_input), bias).of(emit, x)
    assert inputs is not None
    steps, sizes = shape(x)[time], [shape(x)[1 - time], shape(weights.of_input)[0]]
    extent = sizes[time]
    sizes[time] *= steps
    matrix = emit("inputs", relax.op.reshape(inputs, sizes))
    outputs: dict[int, relax.Expr] = {}
    indices = range(steps)
    for index in reversed(indices) if is_backward else indices:
        begin, end = index * extent, (index + 1) * extent
        now = emit("input", relax.op.strided_slice(matrix, [time], [begin], [end]))
        state = cell.step(emit, now, state, products)
        outputs[index] = state[0]
    return [outputs[index] for index in indices], [tensor for tensor in state if tensor is not None]


def in_sequence(
    emit: Emit, outputs: Sequence[relax.Expr], axis: int, sizes: Sequence[int]
) -> relax.Expr:
    """Lay matrices one behind the other along an axis, and shape the whole."""
    whole = emit("steps", relax.op.concat(list(outputs), axis)) if len(outputs) > 1 else outputs[0]
    return emit("sequence", relax.op.reshape(whole, list(sizes)))


def part_of_state(emit: Emit, states: relax.Expr, axis: int, index: int) -> relax.Expr | None:
    """Return the state of one layer and direction of those along an axis; None where it is zero."""
    array = constant(states)
    if array is not None and not array.any():
        return None
    part = emit("state", relax.op.strided_slice(states, [axis], [index], [index + 1]))
    sizes = [size for i, size in enumerate(shape(states)) if i != axis]
    return emit("state", relax.op.reshape(part, sizes))


def check_shapes(
    cell: RecurrentCell, weights: RecurrentWeights, x: relax.Expr, state: State, time: int
) -> None:
    """Raise a ValueError where operands of a layer do not fit each other."""
    if len(shape(x)) != 3:
        raise ValueError(f"its input is {shape(x)}, expected a batch of sequences")
    sizes, projection = shape(weights.of_state), getattr(cell, "projection", None)
    hidden, output = sizes[0] // cell.gates, sizes[-1]
    expected_output = hidden if projection is None else shape(projection)[1]
    if len(sizes) != 2 or sizes[0] % cell.gates or output != expected_output:
        raise ValueError(f"its weights of the state are {sizes}, of {cell.gates} gates")
    rows = sizes[0]
    expected: list[tuple[relax.Expr | None, tuple[int, ...], str]]
    expected = [(weights.of_input, (rows, shape(x)[2]), "weights of the input")]
    expected += [(bias, (rows,), "bias") for bias in (weights.input_bias, weights.state_bias)]
    widths = [output, *[hidden] * (len(state) - 1)]
    expected += [
        (tensor, (shape(x)[1 - time], width), "state")
        for tensor, width in zip(state, widths, strict=True)
    ]
    expected += [(projection, (hidden, output), "projection")]
    for tensor, wanted, name in expected:
        if tensor is not None and shape(tensor) != wanted:
            raise ValueError(f"its {name} is {shape(tensor)}, expected {wanted}")
