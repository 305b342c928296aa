"""TFLite's LSTM layer; ``frontend.recurrent`` has what it becomes.

Its operands are the sequence, weights of input and state for the gates i, f, g and o each,
peepholes, biases, a projection, the two states and factors of norms. The states are kept
between runs by TFLite, until its user resets them; here they are zero before each run.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from relay_int8.frontend.recurrent import check_steps, in_sequence, run_layer
from relay_int8.frontend.recurrent_cells import LstmCell, RecurrentWeights
from relay_int8.frontend.tflite.schema import ACTIVATIONS
from relay_int8.frontend.tflite.step import Converter, TfliteStep
from relay_int8.frontend.tflite.tensors import Result
from relay_int8.graph.dataflow import shape

OF_INPUT, OF_STATE = range(1, 5), range(5, 9)
PEEPHOLES, BIASES = range(9, 12), range(12, 16)
PROJECTION, NORMS = range(16, 18), range(20, 24)
STATES = (18, 19)


def _lstm(step: TfliteStep) -> Result:
    """Run one layer over a sequence, forward."""
    _refuse(step)
    x, time = step.plain(0), 0 if step.options["time_major"] else 1
    if len(shape(x)) != 3:
        raise ValueError(f"its input is {list(shape(x))}, expected a batch of sequences")
    check_steps(shape(x)[time])
    weights = RecurrentWeights(
        _joined(step, OF_INPUT), _joined(step, OF_STATE), _joined(step, BIASES)
    )
    limit = float(step.options["cell_clip"])  # type: ignore[arg-type]
    cell = LstmCell("ifgo", peepholes=_peepholes(step), memory_limit=limit or None)
    outputs, _ = run_layer(step.emit, cell, weights, x, [None, None], time=time, is_backward=False)
    sizes = [*shape(x)[:2], shape(outputs[0])[1]]
    return in_sequence(step.emit, outputs, time, sizes)


def _refuse(step: TfliteStep) -> None:
    if any(step.has(index) for index in (*PROJECTION, *NORMS)):
        raise NotImplementedError("an LSTM that projects its state or normalizes its gates")
    if not all(step.has(index) for index in (*OF_INPUT, *OF_STATE, *BIASES)):
        raise NotImplementedError("an LSTM with less than four gates")
    if ACTIVATIONS[step.integer("activation", 0)] != "TANH":
        raise NotImplementedError("an LSTM with another activation than tanh")
    if step.tensor(0).quantization is not None:
        raise NotImplementedError(
            "an LSTM of integers: convert the model in float, or with dynamic ranges"
        )


def _joined(step: TfliteStep, indices: range) -> relax.Expr:
    """Return constants, one behind the other."""
    return relax.const(np.concatenate([step.reals(index) for index in indices]))


def _peepholes(step: TfliteStep) -> tuple[relax.Expr, relax.Expr, relax.Expr] | None:
    if not any(step.has(index) for index in PEEPHOLES):
        return None
    i, f, o = (relax.const(step.reals(index)) for index in PEEPHOLES)
    return i, f, o


RECURRENT: dict[str, Converter] = {"UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm}
