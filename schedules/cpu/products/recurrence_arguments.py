"""The arguments of recurrent layers' kernels on a CPU, weights packed once.

    w            : (blocks, k/width, gates, 16 lanes * width)   a vector per step of k and gate
    scale, start : (blocks, gates, 16)
    bias         : (blocks, 1, 16)
    s float32 (1,), z int32 (1,), clamp float32 (2,)            integer y

Lanes past the state, and elements of k past it, are zeros.

Exact:  where bytes of the state are multiplied 128 higher, ``start`` takes that off again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from schedules.cpu.dot import LANES, Dot
from schedules.cpu.signs import SIGN
from schedules.spec import Recurrence
from schedules.template import Arrays


def state_type(dot: Dot) -> str:
    """Return the type in which the state is multiplied: int8 where the instruction takes it."""
    return "int8" if "int8" in dot.x_types else dot.x_types[0]


def blocks_of(spec: Recurrence) -> int:
    """Return how many blocks of 16 elements a state has."""
    return -(-spec.hidden // LANES)


def steps_of(dot: Dot, spec: Recurrence) -> int:
    """Return how many steps of the instruction a sum of products has."""
    return -(-spec.hidden // dot.width)


def arguments(dot: Dot, spec: Recurrence) -> dict[str, tuple[Any, str]]:
    """Return shape and type of each argument."""
    blocks = blocks_of(spec)
    shapes: dict[str, Any] = {
        "w": (blocks, steps_of(dot, spec), spec.gates, LANES * dot.width),
        "bias": (blocks, 1, LANES),
        **dict.fromkeys(("scale", "start"), (blocks, spec.gates, LANES)),
        **{"s": (1,), "z": (1,), "clamp": (2,)},
    }
    return {
        **{name: (spec.shape(name), "float32") for name in spec.tensors},
        **{name: (shapes[name], spec.constant_dtype(name)) for name in spec.params},
        "y": (spec.shape("y"), spec.y),
    }


def pack(dot: Dot, spec: Recurrence, params: Arrays) -> Arrays:
    """Return the constants as a kernel reads them."""
    blocks, steps = blocks_of(spec), steps_of(dot, spec)
    w = params["w"].reshape(spec.gates, spec.hidden, spec.hidden)
    unseen = blocks * LANES - spec.hidden, steps * dot.width - spec.hidden
    w = np.pad(w, ((0, 0), (0, unseen[0]), (0, unseen[1])))
    w = w.reshape(spec.gates, blocks, LANES, steps, dot.width).transpose(1, 3, 0, 2, 4)
    packed = {**params, "w": np.ascontiguousarray(w).reshape(blocks, steps, spec.gates, -1)}
    if state_type(dot) == "uint8":
        total = params["w"].sum(axis=1, dtype=np.int64)
        packed["start"] = (params["start"] - SIGN * total).astype(np.int32)
    for name in {"scale", "start", "bias"}.intersection(packed):
        packed[name] = _by_block(spec, packed[name])
    return packed


def _by_block(spec: Recurrence, values: np.ndarray) -> np.ndarray:
    """Return a value for each row of weights as (blocks, gates, 16)."""
    padded = np.pad(values.reshape(-1, spec.hidden), ((0, 0), (0, -spec.hidden % LANES)))
    blocked = padded.reshape(len(padded), blocks_of(spec), LANES)
    return np.ascontiguousarray(blocked.swapaxes(0, 1))
