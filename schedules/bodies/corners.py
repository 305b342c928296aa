"""The four pixels around each sampling coordinate, and their bilinear weights.

    place         float32 (n, parts, taps, 2, oh, ow)   row and column; -1 where nothing is seen
    corner_pixel  int32   (n, parts, taps, 4, oh, ow)   row * width + column, inside the image
    corner_weight float32 (n, parts, taps, 4, oh, ow)   mask and multiplier included

Exact:  every operation is rounded as ``schedules.spec.Sample2d`` says.
"""

from __future__ import annotations

from tvm import te, tirx
from tvm.tirx import Expr

from schedules.bodies.vectors import f32
from schedules.spec import Sample2d
from schedules.template import Layouts

CORNERS = 4  # rows 0 0 1 1, columns 0 1 0 1
PLACE, PIXEL, WEIGHT = "place", "corner_pixel", "corner_weight"
STAGES = (PIXEL, WEIGHT, PLACE)
"""What is computed ahead of y, the last first: places, and the pixels around them."""


class Corners:
    """The pixels around each sampling coordinate, and their weights."""

    def __init__(
        self,
        spec: Sample2d,
        layouts: Layouts,
        tensors: dict[str, te.Tensor],
        params: dict[str, te.Tensor],
    ) -> None:
        self._spec, self._params = spec, params
        self._layouts, self._tensors = layouts, tensors
        taps = (spec.batch, spec.parts, spec.taps)
        self._places = te.compute(
            (*taps, 2, *spec.out_size), lambda *at: self._place(*at), name=PLACE
        )
        corners = (*taps, CORNERS, *spec.out_size)
        self._pixels = te.compute(corners, lambda *at: self._pixel(*at), name=PIXEL)
        self._weights = te.compute(corners, lambda *at: self._weight(*at), name=WEIGHT)

    def at(self, *index: Expr) -> tuple[Expr, Expr, Expr]:
        """Return row, column and weight of a corner, by (n, part, tap, corner, oh, ow)."""
        pixel, width = self._pixels(*index).astype("int64"), self._spec.width
        return tirx.floordiv(pixel, width), tirx.floormod(pixel, width), self._weights(*index)

    def _place(self, n: Expr, part: Expr, tap: Expr, axis: Expr, *out: Expr) -> Expr:
        """Return the coordinate that a tap looks at, -1 where it sees nothing."""
        spec = self._spec
        (kh, kw), (top, left) = spec.kernel, spec.padding[:2]
        base_row = out[0] * spec.strides[0] - top + tap // kw * spec.dilation[0]
        base_col = out[1] * spec.strides[1] - left + tap % kw * spec.dilation[1]
        is_row = axis == 0
        size = tirx.Select(is_row, f32(spec.height), f32(spec.width))
        base = tirx.Select(is_row, base_row, base_col).astype("float32")
        p = base + self._read("offset", (n, (part * (kh * kw) + tap) * 2 + axis, *out))
        above = p >= 0 if spec.rim == "edge" else p > f32(-1)
        moved = te.min(p, size - f32(1)) if spec.rim == "edge" else p
        return tirx.Select(tirx.all(above, p < size), moved, f32(-1))

    def _pixel(self, n: Expr, part: Expr, tap: Expr, corner: Expr, *out: Expr) -> Expr:
        """Return a corner's row times the width plus its column, clamped to the image."""
        within = []
        for axis, side, size in self._axes(corner):
            floor = te.floor(self._places(n, part, tap, axis, *out)).astype("int32")
            within.append(te.min(te.max(floor + side.astype("int32"), 0), size - 1))
        return (within[0] * self._spec.width + within[1]).astype("int32")

    def _weight(self, n: Expr, part: Expr, tap: Expr, corner: Expr, *out: Expr) -> Expr:
        """Return what a corner counts, mask and multiplier included; outside the image 0."""
        shares, zero = [], f32(0)
        for axis, side, size in self._axes(corner):
            p = self._places(n, part, tap, axis, *out)
            floor = te.floor(p)
            lower = tirx.Select(floor >= 0, f32(1) - (p - floor), zero)
            upper = tirx.Select(floor < f32(size - 1), p - floor, zero)
            shares.append(tirx.Select(side == 0, lower, upper))
        weight = shares[0] * shares[1]
        if self._spec.masked:
            weight = weight * self._read("mask", (n, part * self._spec.taps + tap, *out))
        return weight * self._params["m"][0] if "m" in self._params else weight

    def _axes(self, corner: Expr) -> list[tuple[int, Expr, int]]:
        """Return for each axis: its number, the side that a corner lies on, its size."""
        sides = (tirx.floordiv(corner, 2), tirx.floormod(corner, 2))
        return [(0, sides[0], self._spec.height), (1, sides[1], self._spec.width)]

    def _read(self, name: str, logical: tuple[Expr, ...]) -> Expr:
        layout = self._layouts.inputs[self._spec.tensors.index(name)]
        return self._tensors[name](*layout.physical_index(logical))
