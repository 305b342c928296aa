"""TFLite's LSTM and SVDF layers; ``frontend.recurrent`` has what an LSTM becomes.

The operands of an LSTM are the sequence, weights of input and state for the gates i, f, g and o,
peepholes, biases, a projection, the two states and factors of norms. The states are kept between
runs by TFLite, until its user resets them; here they are variables if a run is a single step
(``tflite.states``), else they are zero before each run.

    gate   = norm(x W + h U + c P) * factor + bias    with norms, else x W + h U + c P + bias
    output = clip(hidden Q + q)                       with a projection, else hidden

An LSTM of integers multiplies int8 by int8, as TFLite does, and its output is rounded to int8 at
every step. TFLite has int16 gates and an int16 memory; here they are floats, as the projection is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.frontend.recurrent import check_steps, in_sequence, run_layer
from relay_int8.frontend.recurrent_cells import (
    DenseProducts,
    LstmCell,
    RecurrentWeights,
    State,
)
from relay_int8.frontend.tflite.schema import ACTIVATIONS
from relay_int8.frontend.tflite.step import Converter, TfliteStep, clip
from relay_int8.frontend.tflite.tensors import Result, quantization_of
from relay_int8.graph.dataflow import shape

OF_INPUT, OF_STATE = range(1, 5), range(5, 9)
PEEPHOLES, BIASES = range(9, 12), range(12, 16)
PROJECTION, PROJECTION_BIAS = 16, 17
STATES = (18, 19)
NORMS = range(20, 24)
NORM_EPSILON = 1e-8


def _lstm(step: TfliteStep) -> Result | list[Result]:
    """Run one layer over a sequence, forward."""
    _refuse(step)
    x, time = step.plain(0), 0 if step.options["time_major"] else 1
    if len(shape(x)) != 3:
        raise ValueError(f"its input is {list(shape(x))}, expected a batch of sequences")
    check_steps(shape(x)[time])
    norms, biases = _norms(step), None
    if norms is None:
        biases = relax.const(np.concatenate([step.reals(index) for index in BIASES]))
    weights = RecurrentWeights(_joined(step, OF_INPUT), _joined(step, OF_STATE), biases)
    cell = _LstmCell(
        "ifgo",
        peepholes=_peepholes(step),
        memory_limit=step.number("cell_clip") or None,
        projection=_projection(step),
        layer=step,
        norms=norms,
    )
    is_kept = len(step.outputs) > 1
    state = [step.plain(index) if is_kept else None for index in STATES]
    outputs, state = run_layer(step.emit, cell, weights, x, state, time=time, is_backward=False)
    sizes = [*shape(x)[:2], shape(outputs[0])[1]]
    sequence = in_sequence(step.emit, outputs, time, sizes)
    return [sequence, *state] if is_kept else sequence


def _refuse(step: TfliteStep) -> None:
    if not all(step.has(index) for index in (*OF_INPUT, *OF_STATE, *BIASES)):
        raise NotImplementedError("an LSTM with less than four gates")
    if ACTIVATIONS[step.integer("activation", 0)] != "TANH":
        raise NotImplementedError("an LSTM with another activation than tanh")


@dataclass(frozen=True)
class _LstmCell(LstmCell):
    """An LSTM whose output has the type that the file gives it.

    ``norms`` are factor and bias of each gate in order, (hidden,) each, or None.
    """

    layer: TfliteStep = field(kw_only=True)
    norms: dict[str, tuple[relax.Expr, relax.Expr]] | None = None

    def step(
        self, emit: Emit, x: relax.Expr, state: State, products: list[DenseProducts]
    ) -> list[relax.Expr]:
        """Return the new output, rounded if it is of integers, and the memory."""
        output, memory = super().step(emit, x, state, products)
        if self.projection is not None:
            output = self._shifted(emit, output)
        return [self.layer.quantized(output), memory]

    def gate_sum(self, emit: Emit, gate: str, x: relax.Expr, c: relax.Expr | None) -> relax.Expr:
        """Return what a gate's activation is of, normalized if the file says so."""
        total = super().gate_sum(emit, gate, x, c)
        if self.norms is None:
            return total
        norm = relax.op.nn.layer_norm(total, *self.norms[gate], [-1], NORM_EPSILON)
        return emit("norm", norm)

    def _shifted(self, emit: Emit, output: relax.Expr) -> relax.Expr:
        """Return a projected output with its bias, within its limit."""
        if self.layer.has(PROJECTION_BIAS):
            bias = relax.const(self.layer.reals(PROJECTION_BIAS))
            output = emit("shifted", relax.op.add(output, bias))
        limit = self.layer.number("projection_clip")
        return emit("limited", clip(-limit, limit)(output)) if limit else output


def _joined(step: TfliteStep, indices: range) -> relax.Expr:
    """Return constants, one behind the other; integers with a scale for each row of weights."""
    parts = [step.tensor(index) for index in indices]
    if quantization_of(step.tensor(0)) is None or any(part.quantization is None for part in parts):
        return relax.const(np.concatenate([step.reals(index) for index in indices]))
    rows = [
        [np.broadcast_to(values, part.shape[:1]) for values in (quant.scale, quant.zero)]
        for part in parts
        if (quant := part.quantization) is not None
    ]
    scales, zeros = (np.concatenate(values) for values in zip(*rows, strict=True))
    integers = np.concatenate([part.values for part in parts if part.values is not None])
    return step.emit(
        "weights",
        relax.op.dequantize(
            relax.const(np.ascontiguousarray(integers)),
            relax.const(scales.astype(np.float32)),
            relax.const(zeros.astype(integers.dtype)),
            axis=0,
        ),
    )


def _peepholes(step: TfliteStep) -> tuple[relax.Expr, relax.Expr, relax.Expr] | None:
    if not any(step.has(index) for index in PEEPHOLES):
        return None
    i, f, o = (relax.const(step.reals(index)) for index in PEEPHOLES)
    return i, f, o


def _norms(step: TfliteStep) -> dict[str, tuple[relax.Expr, relax.Expr]] | None:
    """Return factor and bias of the norm of each gate."""
    if not any(step.has(index) for index in NORMS):
        return None
    return {
        gate: (relax.const(step.reals(factor)), relax.const(step.reals(bias)))
        for gate, factor, bias in zip("ifgo", NORMS, BIASES, strict=True)
    }


def _projection(step: TfliteStep) -> relax.Expr | None:
    if not step.has(PROJECTION):
        return None
    return relax.const(np.ascontiguousarray(step.reals(PROJECTION).T))


def _svdf(step: TfliteStep) -> list[Result]:
    """Filter features of the input over the last runs: a layer by low-rank factors of weights.

    The state has the features of as many runs as a filter is long, the newest last; ``rank``
    filters in a row make one unit.
    """
    rank, (n, fan_in) = step.integer("rank", 1), step.shape(0)
    filters, length = step.shape(2)
    if step.shape(1) != (filters, fan_in) or filters % rank:
        raise ValueError(f"its weights are {step.shape(1)} and {step.shape(2)} for {fan_in} inputs")
    features = step.emit("features", relax.op.matmul(step.plain(0), step.moved(1, (1, 0))))
    newest = step.emit("newest", relax.op.reshape(features, (n, filters, 1)))
    old = step.emit("state", relax.op.reshape(step.plain(4), (n, filters, length)))
    state = newest
    if length > 1:
        kept = step.emit("kept", relax.op.strided_slice(old, [2], [1], [length]))
        state = step.emit("states", relax.op.concat([kept, newest], 2))
    parts = step.emit("parts", relax.op.multiply(state, relax.const(step.reals(2))))
    ranks = step.emit("ranks", relax.op.reshape(parts, (n, filters // rank, rank * length)))
    y = relax.op.sum(ranks, [2])
    if step.has(3):
        y = relax.op.add(step.emit("sum", y), relax.const(step.reals(3)))
    return [step.activated(y), relax.op.reshape(state, (n, filters * length))]


RECURRENT: dict[str, Converter] = {"SVDF": _svdf, "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm}
