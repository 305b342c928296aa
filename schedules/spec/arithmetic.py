"""Element-wise arithmetic of float32 tensors, one kernel for all sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from schedules.spec.open_size import LAST
from schedules.spec.operator_spec import OperatorSpec, Shape

Alone = Literal["identity", "clip", "negative", "sigmoid", "gelu"]
Pairwise = Literal["add", "sub", "rsub", "mul", "div", "rdiv", "max", "min"]
Function = Alone | Pairwise
"""``rsub`` and ``rdiv`` take the second operand first. ``clip`` is TVM's, which takes a NaN for its
upper bound where a clamp takes it for the lower one."""
ALONE: tuple[Alone, ...] = get_args(Alone)
"""Functions of one operand."""


@dataclass(frozen=True, kw_only=True)
class Arithmetic(OperatorSpec):
    """A function of each element of x, and of one of b where it takes two.

    b is of x's shape, or (1, c, 1, ...), or has one element. With ``clamped`` the result is
    clamped. In a network dims are logical; those of a kernel for all sizes are symbolic, and in
    memory, which is NCHW16c where it is ``blocked``.
    Params: clamp float32 (2,) if clamped, or of a clip; ``LAST`` if blocked.
    """

    kind: ClassVar[str] = "arithmetic"
    function: Function
    dims: Shape
    b_dims: Shape = ()
    clamped: bool = False
    blocked: bool = False

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("x",) if self.function in ALONE else ("x", "b")

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        bounds = ("clamp",) if self.clamped or self.function == "clip" else ()
        return (*bounds, *((LAST,) if self.blocked else ()))

    def shape(self, name: str) -> Shape:
        """Shape of activation ``name`` ("x", "b" or "y")."""
        return self.b_dims if name == "b" else self.dims

    def dtype(self, name: str) -> str:
        """Element type of every activation."""
        return "float32"
