"""Recurrent layers, as tests of all targets run them."""

from typing import Any

import numpy as np

from schedules.spec import Recurrence

CASES = {
    "one": Recurrence(cell="lstm", batch=1, steps=1, hidden=1, quantized=True),
    "lstm": Recurrence(cell="lstm", batch=1, steps=9, hidden=48, quantized=True, y="int8"),
    "lstm_ragged": Recurrence(cell="lstm", batch=2, steps=4, hidden=37, quantized=True, y="uint8"),
    "lstm_memory": Recurrence(
        cell="lstm", batch=3, steps=5, hidden=21, time=1, gives="memory", quantized=True
    ),
    "gru": Recurrence(
        cell="gru", batch=2, steps=5, hidden=40, time=1, backward=True, quantized=True, y="int8"
    ),
    "gru_state": Recurrence(cell="gru_state", batch=2, steps=6, hidden=19, quantized=True),
    "lstm_given": Recurrence(
        cell="lstm", batch=2, steps=3, hidden=23, given=True, quantized=True, y="int8"
    ),
    "gru_given": Recurrence(
        cell="gru", batch=2, steps=4, hidden=32, time=1, given=True, quantized=True
    ),
    "memory_given": Recurrence(
        cell="lstm", batch=1, steps=2, hidden=40, time=1, gives="memory", given=True, quantized=True
    ),
    "rnn": Recurrence(cell="rnn", batch=1, steps=7, hidden=70, backward=True, quantized=True),
    "wide": Recurrence(cell="lstm", batch=1, steps=3, hidden=600, quantized=True, y="uint8"),
}


def arrays_of(spec: Recurrence, seed: int = 1) -> dict[str, np.ndarray]:
    """Return inputs that reach where the functions are flat, and constants."""
    rng = np.random.default_rng(seed)
    rows, hidden = spec.gates * spec.hidden, spec.hidden
    batch = spec.batch if isinstance(spec.batch, int) else spec.steps  # an open batch of any size
    sizes = (batch, spec.steps) if spec.time else (spec.steps, batch)
    arrays: dict[str, Any] = {"x": rng.normal(0, 2, (*sizes, rows)).astype(np.float32)}
    arrays["x"][..., ::7] *= 20
    arrays |= {name: rng.normal(size=(batch, hidden)).astype("float32") for name in spec.states}
    if spec.quantized:
        arrays["w"] = rng.integers(-127, 128, (rows, hidden)).astype(np.int8)
        arrays["scale"] = (rng.uniform(0.5, 1.5, rows) / (74 * hidden**0.5)).astype(np.float32)
        arrays["start"] = np.zeros(rows, np.int32)
    else:
        arrays["w"] = rng.normal(0, 1 / hidden**0.5, (rows, hidden)).astype(np.float32)
    arrays["bias"] = rng.normal(size=hidden).astype(np.float32)
    z = {"int8": -5, "uint8": 120, "float32": 0}[spec.y]
    bounds = (-128 if spec.y == "int8" else 0) - z, (127 if spec.y == "int8" else 255) - z
    arrays |= {"s": np.array([0.007]), "z": np.array([z]), "clamp": np.array(bounds)}
    arrays |= {name: arrays[name].astype(np.float32) for name in ("s", "clamp")}
    return arrays | {"z": arrays["z"].astype(np.int32)}
