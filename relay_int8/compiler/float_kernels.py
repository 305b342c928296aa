"""A float group -> the spec and the constants of one float32 kernel, if there is one for it."""

from __future__ import annotations

from typing import Final

import numpy as np

from relay_int8.compiler.integer_kernels import Kernel
from relay_int8.graph import dataflow
from relay_int8.graph.capability import refusal
from relay_int8.graph.geometry import (
    conv2d_fields,
    dense_fields,
    move_fields,
    pool2d_counts,
    pool2d_fields,
)
from relay_int8.graph.groups import Clip, Group, Leaky, pad_value
from schedules.spec import Binary, Concat, Conv2d, Dense, DType, Move, Pool2d, Rescale, Sigmoid

F32: Final = "float32"


def float_kernel(group: Group) -> Kernel | None:
    """Return spec and constants of ``group`` in float32, or None: TVM's own kernel computes it."""
    if group.kind not in _KERNELS or refusal(group) is not None:
        return None
    return _KERNELS[group.kind](group)


def _linear(group: Group) -> Kernel:
    assert group.weight is not None
    conv = group.kind == "conv2d"
    rows = group.weight.values if conv else group.weight.values.T
    bias = np.zeros(len(rows), np.float32) if group.bias is None else group.bias
    constants = {
        "w": np.ascontiguousarray(rows, np.float32),
        "bias": bias.astype(np.float32),
        "clamp": _clamp(group),
    }
    leaky = isinstance(group.activation, Leaky)
    if isinstance(group.activation, Leaky):
        slope = np.broadcast_to(group.activation.slope, (len(rows),))
        constants["alpha"] = slope.astype(np.float32)
    if not conv:
        return Dense(**dense_fields(group), x=F32, y=F32, leaky=leaky), constants
    residual: DType | None = F32 if group.residual else None
    spec = Conv2d(**conv2d_fields(group), x=F32, y=F32, residual=residual, leaky=leaky)
    return spec, constants


def _binary(group: Group) -> Kernel:
    a_shape, b_shape = (dataflow.shape(var) for var in group.inputs)
    spec = Binary(
        operator=group.kind,  # type: ignore[arg-type]
        a_shape=a_shape,
        b_shape=b_shape,
        a=F32,
        b=F32,
        y=F32,
    )
    return spec, {"clamp": _clamp(group)}


def _max_pool(group: Group) -> Kernel:
    return Pool2d(**pool2d_fields(group), x=F32, y=F32), {}


def _avg_pool(group: Group) -> Kernel | None:
    if group.activation is not None:
        return None
    m = (1.0 / pool2d_counts(group).astype(np.float64)).astype(np.float32)
    return Pool2d(**pool2d_fields(group), x=F32, y=F32), {"m": m}


def _concat(group: Group) -> Kernel:
    shapes = tuple(dataflow.shape(var) for var in group.inputs)
    return Concat(shapes=shapes, axis=int(group.root.attrs.axis) % len(shapes[0]), x=F32), {}


def _move(group: Group) -> Kernel:
    spec = Move(**move_fields(group), x=F32)
    return spec, {"fill": np.array([pad_value(group)], np.float32)} if spec.params else {}


def _activation(group: Group) -> Kernel:
    dims = dataflow.shape(group.root)
    constants = {"clamp": _clamp(group)}
    leaky = isinstance(group.activation, Leaky)
    if isinstance(group.activation, Leaky):
        slope = np.broadcast_to(group.activation.slope, (dims[1],))
        constants["alpha"] = slope.astype(np.float32)
    return Rescale(dims=dims, x=F32, y=F32, leaky=leaky), constants


def _sigmoid(group: Group) -> Kernel:
    return Sigmoid(dims=dataflow.shape(group.root)), {}


def _clamp(group: Group) -> np.ndarray:
    clip = group.activation if isinstance(group.activation, Clip) else Clip(-np.inf, np.inf)
    return np.array([clip.low, clip.high], np.float32)


_KERNELS = {
    "conv2d": _linear,
    "dense": _linear,
    "add": _binary,
    "mul": _binary,
    "max": _binary,
    "min": _binary,
    "max_pool2d": _max_pool,
    "avg_pool2d": _avg_pool,
    "concat": _concat,
    "activation": _activation,
    "reshape": _move,
    "transpose": _move,
    "slice": _move,
    "shuffle": _move,
    "pad": _move,
    "resize": _move,
    "sigmoid": _sigmoid,
}
