"""NumPy reference of recurrent layers: bit for bit where products are of integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from schedules.reference.exact import fma, to_integer
from schedules.reference.functions import exp, sigmoid
from schedules.spec import Recurrence, Sigmoid
from schedules.spec.functions import LEAST_EXP_ARGUMENT
from schedules.spec.recurrence import LEAST_STATE, STATE_STEPS
from schedules.template import Arrays

Added = Callable[[int, np.ndarray], np.ndarray]
"""``(gate, b)`` -> b plus the products of the gate's weights and a state."""


def recurrence(spec: Recurrence, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return the outputs of all steps, quantized where y is an integer, or the last memory."""
    x = tensors["x"].swapaxes(0, 1) if spec.time else tensors["x"]
    zeros = np.zeros((x.shape[1], spec.hidden), np.float32)
    h, c = (tensors[name] if name in spec.states else zeros for name in ("h", "c"))
    outputs = np.empty((*x.shape[:2], spec.hidden), np.float32)
    for step in range(spec.steps)[:: -1 if spec.backward else 1]:
        h, c = _step(spec, np.split(x[step], spec.gates, axis=1), h, c, params)
        outputs[step] = h
    if spec.gives == "memory":
        return _stored(spec, c, params)
    return _stored(spec, outputs.swapaxes(0, 1) if spec.time else outputs, params)


def _step(
    spec: Recurrence, x: list[np.ndarray], h: np.ndarray, c: np.ndarray, params: Arrays
) -> tuple[np.ndarray, np.ndarray]:
    """Return h and c after a step; ``x`` are the gates' parts of its inputs."""
    added = _products(spec, h, params)
    if spec.cell == "rnn":
        return tanh(added(0, x[0])), c
    if spec.cell == "lstm":
        i, f, g, o = (added(gate, part) for gate, part in enumerate(x))
        c = fma(_sigmoid(f), c, _sigmoid(i) * tanh(g))
        return _sigmoid(o) * tanh(c), c
    r, z = (_sigmoid(added(gate, x[gate])) for gate in (0, 1))
    if spec.cell == "gru":
        n = tanh(fma(r, added(2, np.broadcast_to(params["bias"], h.shape)), x[2]))
    else:
        n = tanh(_products(spec, r * h, params)(2, x[2]))
    return fma(z, h - n, n), c


def _products(spec: Recurrence, h: np.ndarray, params: Arrays) -> Added:
    """Return what adds the products of a state to other sums."""
    w = params["w"].reshape(spec.gates, spec.hidden, spec.hidden)
    if not spec.quantized:
        return lambda gate, b: b + (h.astype(np.float64) @ w[gate].T).astype(np.float32)
    steps = np.float32(STATE_STEPS)
    top = np.maximum(np.abs(h).max(axis=1, keepdims=True), np.float32(LEAST_STATE))
    q = np.rint(h * (steps / top)).astype(np.float64)  # float64 holds every sum exactly
    scale, start = (params[name].reshape(spec.gates, -1) for name in ("scale", "start"))

    def _added(gate: int, b: np.ndarray) -> np.ndarray:
        acc = q @ w[gate].T.astype(np.float64) + start[gate]
        return fma(acc.astype(np.float32) * scale[gate], top / steps, b)

    return _added


def tanh(x: np.ndarray) -> np.ndarray:
    """Return the hyperbolic tangent of float32, bit for bit."""
    one = np.float32(1)
    e = exp(np.maximum(np.float32(-2) * np.abs(x), np.float32(LEAST_EXP_ARGUMENT)))
    t = (one - e) / (one + e)
    return np.asarray(np.where(x >= 0, t, -t))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return sigmoid(Sigmoid(dims=x.shape), {"x": x}, {})


def _stored(spec: Recurrence, t: np.ndarray, params: Arrays) -> np.ndarray:
    if spec.y == "float32":
        return np.ascontiguousarray(t)
    with np.errstate(over="ignore"):
        return to_integer(t / params["s"], params["z"], params["clamp"], spec.y)
