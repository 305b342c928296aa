"""Operators that see a row of values whole: norms and softmax, of float32.

A row is summed in sixteen partial sums: lane l adds elements l, l + 16, l + 32, ... in order, from
zero on; then lanes l and l + 8 are added, l and l + 4, l and l + 2, and the last two. So every
target has the same bits, whatever its vectors are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from schedules.spec.operator_spec import DType, OperatorSpec, Shape
from schedules.template import ScheduleError

PARTIAL_SUMS = 16
QUANTIZE_PARAMS = ("s", "z", "clamp")


@dataclass(frozen=True, kw_only=True)
class Normalize(OperatorSpec):
    """LayerNorm, RMSNorm, GroupNorm and InstanceNorm; x is float32, in rows of ``size`` elements.

    ``mean = sum(x) / n``, ``d = x - mean`` (without ``centred``: ``d = x``), ``inv = 1 /
    sqrt(squares / n + epsilon)`` where squares is the sum of d * d, each partial sum by fma;
    ``t = fma(d * inv, gamma, beta)``; y is t, or the integer that :class:`Quantize` makes of it.
    A row is the last ``axes`` axes, gamma and beta have their elements; or, with ``groups``, what
    an image has of a group of channels (axis 1), gamma and beta have one element a channel; or,
    with ``pixels``, the channels (axis 1) of one pixel of an image.
    Params: gamma, beta float32, epsilon float32 (1,), count float32 (1,) = n, an argument since
    compilers divide by a constant power of two by a product, and join that to the sum behind it;
    where y is an integer s float32 (1,), z int32 (1,), clamp float32 (2,).
    """

    kind: ClassVar[str] = "normalize"
    dims: Shape
    axes: int = 0
    groups: int = 0
    pixels: bool = False
    centred: bool = True
    y: DType

    def __post_init__(self) -> None:
        if bool(self.axes) + bool(self.groups) + self.pixels != 1 or self.axes > len(self.dims):
            raise ScheduleError(
                f"normalize: {self.axes} trailing axes and {self.groups} groups of {self.dims} "
                "found; give trailing axes, or groups of channels, not both"
            )
        if self.pixels and len(self.dims) != 4:
            raise ScheduleError(f"normalize: pixels of {self.dims}; give an image, four axes")
        if self.groups and (len(self.dims) < 2 or self.dims[1] % self.groups):
            raise ScheduleError(
                f"normalize: {self.groups} groups of {self.dims}; axis 1 must be a multiple of them"
            )

    @property
    def size(self) -> int:
        """Elements of a row."""
        if self.pixels:
            return int(self.dims[1])
        if self.groups:
            return math.prod(int(size) for size in self.dims[1:]) // self.groups
        return math.prod(int(size) for size in self.dims[-self.axes :])

    @property
    def span(self) -> int:
        """How many neighbouring elements share one gamma and beta."""
        return math.prod(int(size) for size in self.dims[2:]) if self.groups else 1

    @property
    def channels(self) -> int:
        """Elements of gamma and of beta."""
        return int(self.dims[1]) if self.groups else self.size

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        of_quantize = () if self.y == "float32" else QUANTIZE_PARAMS
        return ("gamma", "beta", "epsilon", "count", *of_quantize)

    def shape(self, name: str) -> Shape:
        """Logical shape of x and y."""
        return self.dims

    def dtype(self, name: str) -> str:
        """Element type of activation ``name``."""
        return "float32" if name == "x" else self.y


@dataclass(frozen=True, kw_only=True)
class Softmax(OperatorSpec):
    """Softmax over ``axis``, the last one if -1; x is float32.

    ``top`` is the largest x, moved into the finite numbers; ``a = min(x - top, 0)``; ``e = exp(a)``
    as :class:`Sigmoid` has it, 0 where a is below ``LEAST_EXP_ARGUMENT``;
    ``t = e / max(sum(e), 1)``; y is t, or the integer that :class:`Quantize` makes of it. So a row
    of minus infinities gives zeros, and several plus infinities share equally. No params, or those
    of :class:`Quantize`.
    """

    kind: ClassVar[str] = "softmax"
    dims: Shape
    axis: int = -1
    y: DType

    def __post_init__(self) -> None:
        if not -len(self.dims) <= self.axis < len(self.dims):
            raise ScheduleError(f"softmax: axis {self.axis} of {self.dims}")

    @property
    def size(self) -> int:
        """Elements of a row."""
        return int(self.dims[self.axis])

    @property
    def span(self) -> int:
        """How far apart the elements of a row lie: how many rows are side by side."""
        behind = self.dims[self.axis % len(self.dims) + 1 :]
        return math.prod(int(size) for size in behind)

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return () if self.y == "float32" else QUANTIZE_PARAMS

    def shape(self, name: str) -> Shape:
        """Logical shape of x and y."""
        return self.dims

    def dtype(self, name: str) -> str:
        """Element type of activation ``name``."""
        return "float32" if name == "x" else self.y
