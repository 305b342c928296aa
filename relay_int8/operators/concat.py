"""Concatenation of tensors along an axis."""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.kernel import F32, Kernel
from relay_int8.operators.operator import Array, Holds, Operator
from relay_int8.operators.pair import operand_signs, operands
from schedules.spec import Concat as Spec
from schedules.spec import DType


class Concat(Operator):
    """Concatenation, whose inputs take the range of its result where they can."""

    kind = "concat"
    shares_scale = True
    in_numpy = True

    def refusal(self, group: Group) -> str | None:
        """Say where an operand is a constant."""
        whole = len(group.inputs) == len(dataflow.arguments(group.root))
        return None if whole else "one of its operands is a constant"

    def lends_range(self, group: Group) -> bool:
        """Say yes: what feeds it alone is not rescaled then."""
        return True

    def is_part(self, group: Group, whole: Group) -> bool:
        """Say whether ``whole`` joins the result of ``group``, or begins with what that joins.

        Dense blocks are written either way.
        """
        if whole.kind != self.kind or self.axis(group) != self.axis(whole):
            return False
        count = len(group.inputs)
        begins = count < len(whole.inputs) and whole.inputs[:count] == group.inputs
        return begins or group.output in whole.inputs

    def passes_sign(self, group: Group, known: Container[relax.Var], holds: Holds) -> bool:
        """Whether the result has the sign property ``holds`` because all operands have it."""
        return bool(group.inputs) and all(operand_signs(group, known, holds))

    def axis(self, group: Group) -> int:
        """Return the axis, not negative."""
        return int(group.root.attrs.axis) % len(dataflow.shape(group.root))

    def spec(self, group: Group, x: DType) -> Spec:
        """Return the spec for elements of a type."""
        shapes = tuple(dataflow.shape(var) for var in group.inputs)
        return Spec(shapes=shapes, axis=self.axis(group), x=x)

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return a kernel without constants."""
        assert y is not None
        return self.spec(group, y.dtype), {}

    def float_kernel(self, group: Group) -> Kernel | None:
        """Return a kernel without constants."""
        return self.spec(group, F32), {}

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return it, images along the first axis."""
        axis, parts = self.axis(group), operands(group, xs)
        if axis:  # what is made of constants is there once, for all images
            images = max(map(len, parts))
            parts = [np.broadcast_to(x, (images, *x.shape[1:])) for x in parts]
        return np.concatenate(parts, axis=axis)

    def is_batched(self, group: Group) -> bool:
        """Say whether it joins along another axis than that of images."""
        whole = self.refusal(group) is None
        return whole and self.axis(group) != 0 and super().is_batched(group)
