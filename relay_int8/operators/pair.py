"""The common record of element-wise operators of two tensors."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import ClassVar, Literal

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.images import activate
from relay_int8.operators.kernel import F32, Constants, Kernel, clamp, clamp_steps, zero_points
from relay_int8.operators.operator import Array, Holds, Operator
from schedules.spec import Binary, DType

Elementwise = Callable[[Array, Array], Array]
Arithmetic = Literal["add", "mul", "div", "max", "min"]


class Pair(Operator):
    """Each element of the result is made of one of either operand; the second may be broadcast."""

    requantizes = True
    in_numpy = True
    takes_constants = True
    arithmetic: ClassVar[Arithmetic]
    """The operator of ``schedules.spec.Binary``."""

    def refusal(self, group: Group) -> str | None:
        """Say where an operand is a constant, or neither has the shape of the result."""
        if len(group.inputs) != 2:
            return "one of its operands is a constant"
        a, b = (dataflow.shape(var) for var in group.inputs)
        if a != dataflow.shape(group.root) or len(a) != len(b):
            return f"it broadcasts {a} and {b} both ways"
        return None

    def passes_sign(self, group: Group, known: Container[relax.Var], holds: Holds) -> bool:
        """Look at all operands."""
        return bool(group.inputs) and all(operand_signs(group, known, holds))

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return a kernel whose operands are scaled apart."""
        assert y is not None
        names = ("m_a", "m_b")
        multipliers = {
            name: self.sign(group, var) * qparams.rescale_multiplier(x.scale, y.scale)
            for name, var, x in zip(names, group.inputs, xs, strict=True)
        }
        return self.binary(group, xs, y, multipliers)

    def sign(self, group: Group, operand: relax.Var) -> int:
        """Return the sign of an operand's multiplier."""
        return 1

    def binary(self, group: Group, xs: Sequence[QParams], y: QParams, m: Constants) -> Kernel:
        """Return the kernel with multipliers ``m``."""
        a, b = xs
        spec = self.spec(group, a.dtype, b.dtype, y.dtype)
        return spec, m | {"z": zero_points(a, b, y), "clamp": clamp_steps(group.activation, y)}

    def spec(self, group: Group, a: DType, b: DType, y: DType) -> Binary:
        """Return the spec for operands and a result of these types."""
        a_shape, b_shape = (dataflow.shape(var) for var in group.inputs)
        return Binary(operator=self.arithmetic, a_shape=a_shape, b_shape=b_shape, a=a, b=b, y=y)

    def float_kernel(self, group: Group) -> Kernel | None:
        """Return the same arithmetic on float32."""
        constants = {"clamp": clamp(group.activation).astype(np.float32)}
        return self.spec(group, F32, F32, F32), constants

    def is_batched(self, group: Group) -> bool:
        """Say whether both operands have the rank of the result."""
        rank = len(dataflow.shape(group.output))
        same = all(len(dataflow.shape(var)) == rank for var in group.inputs)
        return same and super().is_batched(group)

    def is_turned(self, group: Group) -> bool:
        """Say whether the operand that stands second in the graph is the first input."""
        return len(group.inputs) == 2 and not group.inputs[0].same_as(group.root.args[0])

    def in_order(self, group: Group, xs: Sequence[Array]) -> Sequence[Array]:
        """Return tensors in the order of ``group.inputs`` as the graph has them."""
        return xs[::-1] if self.is_turned(group) else xs

    def computed(self, group: Group, xs: Sequence[Array], function: Elementwise) -> Array:
        """Return ``function`` of both operands, and the activation."""
        a, b = operands(group, xs)
        return activate(group.activation, function(a, b))


def operands(group: Group, xs: Sequence[Array]) -> list[Array]:
    """Return the activations and constants of an operator in the order of its arguments."""
    arrays = iter(xs)
    return [
        array if (array := dataflow.constant(argument)) is not None else next(arrays)
        for argument in dataflow.arguments(group.root)
    ]


def operand_signs(group: Group, known: Container[relax.Var], holds: Holds) -> list[bool]:
    """Say of each tensor and constant that a group reads whether it has the sign in question."""
    arrays = map(dataflow.constant, dataflow.arguments(group.root))
    constants = [holds(array) for array in arrays if array is not None]
    return [*(var in known for var in group.inputs), *constants]
