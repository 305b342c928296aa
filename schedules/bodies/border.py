"""Which taps of a window lie inside the image, along one axis.

Kernels skip the taps outside, and the zero point is folded into the bias: so the bias of an output
position depends on which taps its window keeps. Neighbours that keep the same taps form a class:
those in the middle, with all taps, and at the edges each position, or, with a dilation, a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tvm import tirx
from tvm.tirx import Expr

from schedules.spec import Conv2d


@dataclass(frozen=True, kw_only=True)
class BorderedAxis:
    """One axis of a convolution: extents of x, y and the kernel, stride, dilation and padding."""

    size: int
    out: int
    kernel: int
    stride: int
    dilation: int
    before: int

    def taps(self, position: int) -> list[int]:
        """Return the taps inside the image for the output at ``position``."""
        start = position * self.stride - self.before
        return [k for k in range(self.kernel) if 0 <= start + k * self.dilation < self.size]

    @property
    def crosses(self) -> tuple[bool, bool]:
        """Whether windows reach past the first, and past the last element."""
        last = (self.out - 1) * self.stride - self.before + (self.kernel - 1) * self.dilation
        return self.before > 0, last >= self.size

    @property
    def middle(self) -> tuple[int, int]:
        """First and last of the positions whose windows lie inside, as clamps see them.

        Where there are none, both name the last position: each is a class of its own.
        """
        inside = [i for i in range(self.out) if len(self.taps(i)) == self.kernel]
        return (inside[0], inside[-1]) if inside else (self.out - 1, self.out - 1)

    @cached_property
    def classes(self) -> tuple[int, ...]:
        """The first position of each class."""
        changes = (i for i in range(1, self.out) if self.taps(i) != self.taps(i - 1))
        return (0, *changes)

    def class_of(self, position: Expr) -> Expr:
        """Return the class of an output position, as an expression."""
        first, last = self.middle
        if len(self.classes) == 1:
            return tirx.const(0, "int64")
        if self.classes == (*range(first + 1), *range(last + 1, self.out)):  # two operations do
            return tirx.min(position, first) + tirx.max(position - last, 0)
        return sum(
            ((position >= start).astype("int64") for start in self.classes[1:]),
            start=tirx.const(0, "int64"),
        )

    def source(self, position: Expr, tap: Expr) -> Expr:
        """Return where in x the tap of an output position lies."""
        return position * self.stride + tap * self.dilation - self.before

    def inside(self, position: Expr, tap: Expr) -> list[Expr]:
        """Return the conditions under which the tap lies inside the image; none if always."""
        first, last = self.crosses
        source = self.source(position, tap)
        return [*([source >= 0] if first else []), *([source < self.size] if last else [])]


def axes_of(spec: Conv2d) -> tuple[BorderedAxis, BorderedAxis]:
    """Return the rows and the columns of a convolution."""
    sizes = zip(
        (spec.height, spec.width),
        spec.out_size,
        spec.kernel,
        spec.strides,
        spec.dilation,
        spec.padding[:2],
        strict=True,
    )
    names = ("size", "out", "kernel", "stride", "dilation", "before")
    rows, cols = (BorderedAxis(**dict(zip(names, values, strict=True))) for values in sizes)
    return rows, cols
