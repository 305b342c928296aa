"""Element-wise arithmetic of float32 tensors, one kernel for all sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from schedules.spec.operator_spec import OperatorSpec, Shape

Function = Literal[
    "clamp", "negative", "sigmoid", "gelu", "add", "sub", "rsub", "mul", "div", "rdiv", "max", "min"
]
"""``rsub`` and ``rdiv`` take the second operand first; ``clamp`` is bounds alone."""
ALONE: tuple[Function, ...] = ("clamp", "negative", "sigmoid", "gelu")
"""Functions of one operand."""


@dataclass(frozen=True, kw_only=True)
class Arithmetic(OperatorSpec):
    """A function of each element of x, and of one of b where it takes two.

    b is of x's shape, or (1, c, 1, ...), or has one element. With ``clamped`` the result is clamped.
    Where the network is compiled dims are logical; those of a kernel for all sizes are symbolic, and
    in memory: with ``last_channels`` that is NCHW16c, whose last block has so many channels, and
    zero in its other lanes.
    Params: clamp float32 (2,) if clamped.
    """

    kind: ClassVar[str] = "arithmetic"
    function: Function
    dims: Shape
    b_dims: Shape = ()
    clamped: bool = False
    last_channels: int = 0

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("x",) if self.function in ALONE else ("x", "b")

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("clamp",) if self.clamped else ()

    def shape(self, name: str) -> Shape:
        """Shape of activation ``name`` ("x", "b" or "y")."""
        return self.b_dims if name == "b" else self.dims

    def dtype(self, name: str) -> str:
        """Element type of every activation."""
        return "float32"
