"""Functions of one tensor, element by element: tables of 256 entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.numerics.unary import NON_NEGATIVE, UNARY
from relay_int8.operators.kernel import Kernel
from relay_int8.operators.operator import Array, Operator
from schedules.spec import Gelu as GeluSpec
from schedules.spec import Sigmoid as SigmoidSpec
from schedules.spec import Table


class Function(Operator):
    """A tree of element-wise operators that is one function: see ``graph.functions``."""

    kind = "function"
    requantizes = True
    in_numpy = True

    def function(self, group: Group) -> Callable[[np.ndarray], np.ndarray]:
        """Return the whole tree."""
        assert group.function is not None
        return group.function

    def is_non_negative(self, group: Group) -> bool:
        """Whether the last operator of the tree is never negative."""
        return group.function is not None and group.function.is_non_negative

    def range_refusal(self, group: Group, x: QParams) -> str | None:
        """Say where the function of some integer is not finite."""
        return qparams.table_refusal(self.function(group), x)

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return a table of every integer."""
        assert y is not None
        table = qparams.unary_table(self.function(group), xs[0], y)
        spec = Table(dims=dataflow.shape(group.root), x=xs[0].dtype, y=y.dtype)
        return spec, {"table": table}

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return it in float64, rounded to float32."""
        return self.function(group)(xs[0].astype(np.float64)).astype(np.float32)


class Unary(Function):
    """A single unary operator of Relax."""

    def __init__(self, kind: str) -> None:
        self.kind = kind  # type: ignore[misc]

    def function(self, group: Group) -> Callable[[np.ndarray], np.ndarray]:
        """Return it."""
        return UNARY[self.kind]

    def is_non_negative(self, group: Group) -> bool:
        """Whether the operator is known to be never negative."""
        return self.kind in NON_NEGATIVE


class Sigmoid(Unary):
    """The logistic function, which has a float32 kernel with bits of its own."""

    def __init__(self) -> None:
        super().__init__("sigmoid")

    def float_kernel(self, group: Group) -> Kernel | None:
        """Return the kernel of the series that design.md has."""
        return SigmoidSpec(dims=dataflow.shape(group.root)), {}


class Gelu(Unary):
    """GELU by the error function, which has a float32 kernel with bits of its own."""

    def __init__(self) -> None:
        super().__init__("nn.gelu")

    def float_kernel(self, group: Group) -> Kernel | None:
        """Return the kernel of the series that design.md has."""
        return GeluSpec(dims=dataflow.shape(group.root)), {}
