"""Calls of norms with constant gamma and beta, and what constants behind them make of these."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm import relax

from relay_int8.graph.dataflow import constant, operator, shape

NORMS = ("nn.layer_norm", "nn.rms_norm", "nn.group_norm", "nn.instance_norm")


@dataclass(frozen=True)
class NormCall:
    """A call of a norm: gamma and beta float64 of one shape; ``beta`` is zero of an RMSNorm.

    ``axes`` count from the front; ``groups`` is 0 but for GroupNorm.
    """

    kind: str
    x: relax.Expr
    gamma: np.ndarray
    beta: np.ndarray
    axes: tuple[int, ...]
    epsilon: float
    groups: int = 0

    @classmethod
    def neutral(
        cls, kind: str, x: relax.Expr, axes: Sequence[int], epsilon: float, groups: int = 0
    ) -> NormCall:
        """Return a norm with gamma one and beta zero."""
        of_axes = kind in ("nn.layer_norm", "nn.rms_norm")
        dims = [shape(x)[axis] for axis in axes] if of_axes else shape(x)[1:2]
        return cls(kind, x, np.ones(dims), np.zeros(dims), tuple(axes), epsilon, groups)

    @property
    def is_neutral(self) -> bool:
        """Whether gamma and beta do nothing."""
        return bool((self.gamma == 1).all() and not self.beta.any())

    @property
    def over_pixels(self) -> bool:
        """Whether the axes are all those behind the channels."""
        return self.axes == tuple(range(2, len(shape(self.x)))) and len(self.axes) > 0

    def call(self) -> relax.Call:
        """Return the operator."""
        gamma, beta = (relax.const(array.astype("float32")) for array in (self.gamma, self.beta))
        axes = list(self.axes)
        if self.kind == "nn.rms_norm":
            return relax.op.nn.rms_norm(self.x, gamma, axes, self.epsilon)
        if self.kind == "nn.layer_norm":
            return relax.op.nn.layer_norm(self.x, gamma, beta, axes, self.epsilon)
        if self.kind == "nn.instance_norm":
            return relax.op.nn.instance_norm(self.x, gamma, beta, 1, axes, self.epsilon)
        return relax.op.nn.group_norm(self.x, gamma, beta, self.groups, 1, axes, self.epsilon)

    def multiplied(self, factor: np.ndarray) -> NormCall | None:
        """Return the norm times a constant, or None where that does not fit gamma."""
        fitting = self._fitting(factor)
        if fitting is None:
            return None
        norm, along = fitting
        return replace(norm, gamma=norm.gamma * along, beta=norm.beta * along)

    def added(self, term: np.ndarray) -> NormCall | None:
        """Return the norm plus a constant, or None where that does not fit beta."""
        fitting = self._fitting(term)
        if fitting is None or self.kind == "nn.rms_norm":
            return None
        norm, along = fitting
        return replace(norm, beta=norm.beta + along)

    def _fitting(self, values: np.ndarray) -> tuple[NormCall, np.ndarray] | None:
        """Return a norm whose gamma has numbers of ``values``, and these in gamma's shape."""
        rank = len(shape(self.x))
        if values.ndim > rank:
            return None
        padded = values.reshape((1,) * (rank - values.ndim) + values.shape).astype(np.float64)
        varies = {axis for axis, size in enumerate(padded.shape) if size != 1}
        if self.kind in ("nn.layer_norm", "nn.rms_norm"):
            if varies <= set(self.axes):
                dims = padded.shape[rank - len(self.axes) :]
                return self, np.broadcast_to(padded.reshape(dims), self.gamma.shape)
            if self.kind == "nn.rms_norm" or not (self.is_neutral and self.over_pixels):
                return None
            norm = NormCall.neutral("nn.instance_norm", self.x, self.axes, self.epsilon)
            return norm._fitting(values)
        if not varies <= {1}:
            return None
        return self, np.broadcast_to(padded.reshape(-1), self.gamma.shape)


def norm_call_of(value: relax.Expr) -> NormCall | None:
    """Return a norm whose gamma and beta are constants of the shape of its axes, or None."""
    kind = operator(value)
    if kind not in NORMS:
        return None
    attrs, x = value.attrs, value.args[0]
    if kind in ("nn.group_norm", "nn.instance_norm") and int(attrs.channel_axis) != 1:
        return None
    axes = tuple(sorted(int(axis) % len(shape(x)) for axis in attrs.axes))
    groups = int(getattr(attrs, "num_groups", 0))
    norm = NormCall.neutral(kind, x, axes, float(attrs.epsilon), groups)
    dims, constants = norm.gamma.shape, {"gamma": norm.gamma, "beta": norm.beta}
    for (name, used), factor in zip(_used(value).items(), value.args[1:], strict=False):
        array = constant(factor) if used else None
        if used and (array is None or array.size != math.prod(dims)):
            return None
        if array is not None:
            constants[name] = array.astype(np.float64).reshape(dims)
    return replace(norm, gamma=constants["gamma"], beta=constants["beta"])


def has_flags(value: relax.Expr) -> bool:
    """Say whether a norm leaves its gamma or its beta out, whatever they are."""
    return not all(_used(value).values())


def _used(value: relax.Call) -> dict[str, bool]:
    flags = {"gamma": "scale", "beta": "center"}
    return {name: bool(getattr(value.attrs, flag, True)) for name, flag in flags.items()}
