"""Recurrent networks, as the frontends write them, of sequences long enough for a loop."""

import numpy as np
import onnx
from onnx import helper

from tests.onnx_models import model

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, BATCH, SIZE, HIDDEN = 11, 1, 12, 20
BOTH = "bidirectional"


def recurrent_model(
    operator: str,
    *,
    outputs: tuple[str, ...] = ("Y",),
    batch: int = BATCH,
    states: bool = False,
    given: bool = False,
    dense: int = 0,
    **attributes: object,
) -> onnx.ModelProto:
    """Return a dense layer, a recurrent one, and with ``dense`` one more behind its last outputs.

    With ``states`` states of zeros are given, with ``given`` they are inputs h and c.
    """
    rng = np.random.default_rng(0)
    directions, rows = 1 + (attributes.get("direction") == BOTH), GATES[operator] * HIDDEN
    first = attributes.get("layout", 0)
    sizes = (batch, STEPS) if first else (STEPS, batch)
    state = (batch, directions, HIDDEN) if first else (directions, batch, HIDDEN)
    weights = {
        "V": rng.normal(0, 0.5, (SIZE, SIZE)),
        "W": rng.normal(0, 0.5, (directions, rows, SIZE)),
        "R": rng.normal(0, 0.4, (directions, rows, HIDDEN)),
        "B": rng.normal(0, 0.3, (directions, 2 * rows)),
    }
    names = ["e", "W", "R", "B"]
    if states:
        weights["zeros"] = np.zeros(state)
        names += ["", "zeros", *(["zeros"] if operator == "LSTM" else [])]
    inputs: dict[str, tuple[int, ...]] = {"x": (*sizes, SIZE)}
    if given:
        before = ["h", "c"] if operator == "LSTM" else ["h"]
        inputs |= dict.fromkeys(before, state)
        names += ["", *before]
    nodes = [
        helper.make_node("MatMul", ["x", "V"], ["e"], "embedding"),
        helper.make_node(operator, names, list(outputs), "layer", hidden_size=HIDDEN, **attributes),
    ]
    results = [name for name in outputs if name]
    if dense:
        weights["D"] = rng.normal(0, 0.3, (HIDDEN, dense))
        nodes.append(helper.make_node("MatMul", [outputs[-1], "D"], ["logits"], "head"))
        results = ["logits"]
    return model(
        nodes,
        inputs,
        {name: None for name in results},
        {name: np.asarray(array, np.float32) for name, array in weights.items()},
        opset=14,
    )
