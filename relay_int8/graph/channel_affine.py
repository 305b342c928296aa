"""Arithmetic with one constant a channel: ``a * x + b``.

    y = (x - mean) / deviation

A chain of additions, subtractions, multiplications, divisions and changes of sign by constants is
one of them. It starts where a constant differs from channel to channel; one of scalars alone is a
table, and what follows a convolution by constant weights belongs to that (FoldAffine).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.graph.dataflow import constant, operator, shape

Array = np.ndarray[Any, np.dtype[Any]]
Scaling = tuple[Array | float, Array | float]
RANK = 4


@dataclass(frozen=True)
class ChannelAffine:
    """``members`` compute the last of them, ``scale * source + shift``, float64 (channels,)."""

    source: relax.Var
    members: tuple[tuple[relax.Var, relax.Call], ...]
    scale: Array
    shift: Array

    def __call__(self, x: Array) -> Array:
        """Return the affine function of ``x``, (n, c, h, w)."""
        y: Array = x * self.scale.reshape(-1, 1, 1) + self.shift.reshape(-1, 1, 1)
        return y


def find_channel_affines(
    values: Mapping[relax.Var, relax.Expr],
    readers: Mapping[relax.Var, list[relax.Var]],
    results: set[relax.Var],
    biases: Collection[relax.Var],
) -> list[ChannelAffine]:
    """Return the chains among ``values`` (in topological order), none overlapping.

    ``biases`` are additions that belong to a convolution.
    """
    affines: list[ChannelAffine] = []
    taken = set(biases)
    for var, value in values.items():
        step = None if var in taken else channel_arithmetic(value)
        if step is None or not _varies(value) or len(shape(value)) != RANK:
            continue
        source, scaling = step
        scale, shift = (np.broadcast_to(part, (shape(value)[1],)) for part in scaling)
        members = [(var, value)]
        while len(readers[var]) == 1 and var not in results:
            (var,) = readers[var]
            step = channel_arithmetic(values[var])
            if step is None:
                break
            factor, summand = step[1]
            scale, shift = scale * factor, shift * factor + summand
            members.append((var, values[var]))
        taken.update(member for member, _ in members)
        if np.isfinite(scale).all() and np.isfinite(shift).all():
            affines.append(ChannelAffine(source, tuple(members), scale, shift))
    return affines


def channel_arithmetic(
    value: relax.Expr, *, is_last: bool = False
) -> tuple[relax.Var, Scaling] | None:
    """Return operand, scale and shift of one operation with a constant a channel, or None.

    Channels are axis 1 of an image, unless ``is_last``, and the last one of any other tensor.
    """
    op = operator(value)
    if op == "negative":
        return value.args[0], (-1.0, 0.0)
    if op not in ("add", "subtract", "multiply", "divide"):
        return None
    a, b = value.args
    flipped = constant(a) is not None
    x, other = (b, a) if flipped else (a, b)
    k = _per_channel(value, x, other, is_last=is_last)
    if k is None or (flipped and op == "divide"):
        return None
    if op == "add":
        return x, (1.0, k)
    if op == "subtract":
        return x, ((-1.0, k) if flipped else (1.0, -k))
    with np.errstate(divide="ignore"):
        return x, ((k if op == "multiply" else 1.0 / k), 0.0)


def _per_channel(
    value: relax.Call, x: relax.Expr, other: relax.Expr, *, is_last: bool
) -> Array | None:
    """Return a constant as one float64 number a channel of ``x``, or None."""
    array = constant(other)
    rank = len(shape(x))
    if array is None or array.dtype.kind != "f" or shape(value) != shape(x) or not rank:
        return None
    axis = 1 if rank == RANK and not is_last else rank - 1
    full = array.reshape((1,) * (rank - array.ndim) + array.shape)
    if any(extent != 1 for i, extent in enumerate(full.shape) if i != axis):
        return None
    return np.broadcast_to(full.reshape(-1).astype("float64"), (shape(x)[axis],))


def _varies(value: relax.Call) -> bool:
    """Whether a constant among the operands has more than one element."""
    return any(array is not None and array.size > 1 for array in map(constant, value.args))
