"""The common record of maximum and minimum of two tensors, one of which may be a constant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.kernel import Constants, Kernel, clamp_steps, zero_points
from relay_int8.operators.operator import Array
from relay_int8.operators.pair import Pair
from schedules.spec import Bound


class Extreme(Pair):
    """A pair of activations, or an activation and a constant of any shape, in either order."""

    arithmetic: ClassVar[Literal["max", "min"]]

    def refusal(self, group: Group) -> str | None:
        """Say where a constant is not finite, or larger than the activation."""
        constant = constant_operand(group)
        if constant is None:
            return super().refusal(group)
        x, y = dataflow.shape(group.inputs[0]), dataflow.shape(group.root)
        if x != y:
            return f"a constant of {constant.shape} broadcasts its input of {x}"
        beyond = constant[~np.isfinite(constant)]
        return (
            f"its constant holds {beyond[0]}, which no integer stands for" if beyond.size else None
        )

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return a kernel of two tensors, or of one and integers of the result."""
        constant = constant_operand(group)
        if constant is None:
            return super().integer_kernel(group, xs, y)
        assert y is not None
        (x,), dims = xs, dataflow.shape(group.root)
        clamp = clamp_steps(group.activation, y)
        integers = qparams.constant_integers(constant, y)
        bound = np.clip(integers, *(clamp + y.zero_point)).astype(y.dtype)
        shape = (1,) * (len(dims) - bound.ndim) + bound.shape
        constants: Constants = {
            "m": qparams.rescale_multiplier(x.scale, y.scale),
            "z": zero_points(x, y),
            "clamp": clamp,
            "bound": bound.reshape(-1),
        }
        spec = Bound(operator=self.arithmetic, dims=dims, bound_shape=shape, x=x.dtype, y=y.dtype)
        return spec, constants

    def float_kernel(self, group: Group) -> Kernel | None:
        """Return the kernel of two tensors; TVM's own computes that of a constant."""
        return super().float_kernel(group) if constant_operand(group) is None else None


def constant_operand(group: Group) -> Array | None:
    """Return the constant that a group of two operands reads, or None."""
    arrays = map(dataflow.constant, dataflow.arguments(group.root))
    return next((array for array in arrays if array is not None), None)
