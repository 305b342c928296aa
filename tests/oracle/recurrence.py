"""Recurrent layers as docs/design.md has them, one sequence and one step at a time.

Weights are float32, or int64 integers with a float32 scale for each row: then the products are those of
integers, and every operation rounds as on all targets. With floats it is what a float network computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.arithmetic import Array, fma
from tests.oracle.functions import exp, sigmoid

Weights = tuple[Array, Array | None]


def recurrence(x: Array, *others: Array, **at: Any) -> Array:
    """Return the outputs or the last memory of a layer; ``scale`` is there for integer weights.

    ``others`` are the states before the first step, the weights, and the bias of a GRU.
    """
    count = state_count(at)
    states, (w, *biases) = others[:count], others[count:]
    bias = biases[0] if biases else None
    sequences = x if at["time"] else x.swapaxes(0, 1)
    zeros = np.zeros((len(sequences), w.shape[1]), np.float32)
    h, c = [*states, zeros, zeros][:2]
    found = [_sequence(each, w, bias, h[n], c[n], at) for n, each in enumerate(sequences)]
    if at["gives"] == "memory":
        return np.stack([memory for _, memory in found])
    return np.stack([outputs for outputs, _ in found], axis=1 - at["time"])


def state_count(at: dict[str, Any]) -> int:
    """Return how many tensors are the state before the first step: h and, of an LSTM, c, or none."""
    if not at.get("given"):
        return 0
    return 2 if at["cell"] == "lstm" else 1


def _sequence(
    x: Array, w: Array, bias: Array | None, h: Array, c: Array, at: dict[str, Any]
) -> tuple[Array, Array]:
    """Return (steps, hidden) and the last memory; h and c are those before the first step."""
    hidden = w.shape[1]
    state = {"h": h, "c": c}
    outputs = np.zeros((len(x), hidden), np.float32)
    for t in reversed(range(len(x))) if at["backward"] else range(len(x)):
        inputs = x[t].reshape(-1, hidden)

        def gate(k: int, vector: Array, addend: Array) -> Array:
            rows = slice(k * hidden, (k + 1) * hidden)
            scale = at.get("scale")
            return _plus(addend, w[rows], vector, None if scale is None else scale[rows])

        h, c = state["h"], state["c"]
        if at["cell"] == "lstm":
            i, f, g, o = (gate(k, h, inputs[k]) for k in range(4))
            c = fma(sigmoid(f), c, sigmoid(i) * tanh(g))
            state = {"h": sigmoid(o) * tanh(c), "c": c}
        elif at["cell"] == "rnn":
            state["h"] = tanh(gate(0, h, inputs[0]))
        else:
            r, z = (sigmoid(gate(k, h, inputs[k])) for k in (0, 1))
            if at["cell"] == "gru":
                content = fma(r, gate(2, h, bias), inputs[2])
            else:
                content = gate(2, r * h, inputs[2])
            n = tanh(content)
            state["h"] = fma(z, h - n, n)
        outputs[t] = state["h"]
    return outputs, state["c"]


def _plus(addend: Array, w: Array, vector: Array, scale: Array | None) -> Array:
    """Return ``addend + w @ vector``."""
    if scale is None:
        return addend + (w @ vector).astype(np.float32)
    top = max(np.abs(vector).max(), np.float32(2.0**-64))
    q = np.rint(vector * (np.float32(127) / top)).astype(np.int64)
    return fma((w @ q).astype(np.float32) * scale, np.asarray(top / np.float32(127)), addend)


def tanh(x: Array) -> Array:
    """Return the hyperbolic tangent of float32, bit for bit."""
    e = exp(np.maximum(-2 * np.abs(x), np.float32(-87)))
    t = (1 - e) / (1 + e)
    return np.where(x < 0, -t, t)
