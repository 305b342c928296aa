"""The common record of operators that move integers and compute nothing."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import ClassVar

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.kernel import F32, Kernel
from relay_int8.operators.operator import Holds, Operator
from schedules.spec import DType
from schedules.spec import Move as Spec


class Move(Operator):
    """Integers change their positions; the result has the parameters of the input."""

    shares_scale = True
    in_numpy = True
    move: ClassVar[str] = ""
    """The name in ``schedules.spec.Move``; the kind, if empty."""

    def arguments(self, group: Group) -> tuple[int, ...]:
        """Return the arguments of the spec."""
        return ()

    def move_of(self, group: Group) -> str:
        """Return the name in ``schedules.spec.Move``."""
        return self.kind

    def fill(self, group: Group) -> float:
        """Return the real number that fills positions which no input element takes."""
        return 0.0

    def keeps_range(self, group: Group) -> bool:
        """Say yes: integers keep their scale."""
        return True

    def passes_sign(self, group: Group, known: Container[relax.Var], holds: Holds) -> bool:
        """Look at its input."""
        return bool(group.inputs) and all(var in known for var in group.inputs)

    def spec(self, group: Group, x: DType) -> Spec:
        """Return the spec for elements of a type."""
        return Spec(
            move=self.move_of(group),  # type: ignore[arg-type]
            x_shape=dataflow.shape(group.inputs[0]),
            y_shape=dataflow.shape(group.root),
            arguments=self.arguments(group),
            x=x,
        )

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return the move; what fills is an integer of the result."""
        assert y is not None
        spec = self.spec(group, y.dtype)
        fill = qparams.constant_integer(self.fill(group), y)
        return spec, {"fill": np.array([fill], y.dtype)} if spec.params else {}

    def float_kernel(self, group: Group) -> Kernel | None:
        """Return the same move of float32."""
        spec = self.spec(group, F32)
        return spec, {"fill": np.array([self.fill(group)], np.float32)} if spec.params else {}
