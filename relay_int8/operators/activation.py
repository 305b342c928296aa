"""ReLU, clip, LeakyReLU and PReLU that no kernel before them takes into its epilogue."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relay_int8.graph import dataflow
from relay_int8.graph.group import Clip, Group, Leaky
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.images import activate
from relay_int8.operators.kernel import F32, Constants, Kernel, clamp, clamp_steps, zero_points
from relay_int8.operators.operator import Array, Operator
from schedules.spec import Rescale


class Activation(Operator):
    """A rescale with bounds, or with a slope below zero."""

    kind = "activation"
    requantizes = True
    in_numpy = True

    def refusal(self, group: Group) -> str | None:
        """Say where slopes are no constants of channels."""
        if group.activation is None:
            return "its slopes are not constant per channel"
        if isinstance(group.activation, Leaky) and len(dataflow.shape(group.root)) < 2:
            return "its slopes are those of channels, and a vector has none"
        return None

    def is_bound(self, group: Group) -> bool:
        """Say whether it has no slopes."""
        return isinstance(group.activation, Clip)

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return a rescale: one multiplier, or two a channel."""
        assert y is not None
        constants: Constants = {
            "m": qparams.rescale_multiplier(xs[0].scale, y.scale),
            "z": zero_points(xs[0], y),
            "clamp": clamp_steps(group.activation, y),
        }
        leaky = isinstance(group.activation, Leaky)
        if isinstance(group.activation, Leaky):
            slope = _by_channel(group, group.activation)
            constants["m_neg"] = qparams.rescale_multiplier_leaky(xs[0].scale, y.scale, slope)
        dims = dataflow.shape(group.root)
        return Rescale(dims=dims, x=xs[0].dtype, y=y.dtype, leaky=leaky), constants

    def float_kernel(self, group: Group) -> Kernel | None:
        """Return bounds, and slopes of channels."""
        constants = {"clamp": clamp(group.activation).astype(np.float32)}
        leaky = isinstance(group.activation, Leaky)
        if isinstance(group.activation, Leaky):
            constants["alpha"] = _by_channel(group, group.activation).astype(np.float32)
        return Rescale(dims=dataflow.shape(group.root), x=F32, y=F32, leaky=leaky), constants

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return it, images along the first axis."""
        return activate(group.activation, xs[0].copy())


def _by_channel(group: Group, activation: Leaky) -> np.ndarray:
    return np.broadcast_to(activation.slope, (dataflow.shape(group.root)[1],))
