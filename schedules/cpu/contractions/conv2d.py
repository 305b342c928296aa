"""Convolution over NCHW16c, for any instruction flavour.

    x, r, y : (n, c/16, h, w, 16)                                   NCHW16c
    w       : (oc/16, ic/16, kh, kw, 16/width, 16 lanes * width)    a vector per step
    bias    : (row classes, column classes, oc/16, 16)              see schedules.bodies.border
    m, m_neg, alpha : (oc/16, 16)

Padding is not copied anywhere: taps outside the image are skipped, and so cost nothing. Rows are
skipped by a branch around a whole row of taps. Columns are skipped where the tiles of a row are
unrolled, so that the compiler knows them; on wide images they read the zero point instead, without
a branch, and the row of tiles is rounded up. With a dilation neighbouring tiles share no column of
x, so that each tap would choose anew: tiles whose windows lie inside are a loop of their own there.

Exact:  integers always; float32 sums ascend, in an order that the shape alone decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import tirx
from tvm.target import Target
from tvm.tirx import Expr

from schedules.bodies.arguments import constants
from schedules.bodies.border import BorderedAxis, axes_of
from schedules.bodies.buffers import ramp
from schedules.bodies.epilogue import type_refusal
from schedules.cpu.dot import LANES, Dot, bits_select
from schedules.cpu.tiles.contraction import ContractionKernel, Index, contraction_kernel
from schedules.cpu.tiles.conv_arguments import blocked, channel_blocks, pack_with
from schedules.cpu.tiles.tile_rule import OutputRow
from schedules.layout import NCHW16C
from schedules.spec import Conv2d
from schedules.template import Arrays, Layouts

UNROLLED = 120  # columns of y times columns of the kernel; more is too much code
UNROLLED_DILATED = 400  # taps of neighbours are other columns then, and each would be masked
NARROW_KERNEL = 3  # columns of a kernel; tiles under wider ones read many more columns of x
WINDOWED_COLUMNS = 14  # of such a tile: more of y and x do not fit the registers together
ROUND = 4  # multiple that the columns of y are rounded up to on wide images


def refuses(dot: Dot, spec: Conv2d, target: Target) -> str | None:
    """Say why ``spec`` cannot be computed with ``dot`` on ``target``, or None."""
    refusal = dot.refuses(spec.x, target) or type_refusal(spec, weights=dot.weights)
    if refusal is None and spec.groups > 1:
        inputs, outputs = spec.in_channels // spec.groups, spec.out_channels // spec.groups
        if inputs % LANES or outputs % LANES:
            return f"groups of {inputs} -> {outputs} channels; want multiples of {LANES}"
    return refusal


def layouts(spec: Conv2d, wanted: Layouts) -> Layouts:
    """Return the only layouts it has: NCHW16c."""
    return blocked(spec, wanted)


def is_wide(cols: BorderedAxis) -> bool:
    """Whether a row of y has edges or a last tile that asks for unrolling, and is too wide."""
    ragged = cols.out % ROUND != 0
    return (any(cols.crosses) or ragged) and not _is_short(cols)


def _is_short(cols: BorderedAxis) -> bool:
    """Whether a row of y may be unrolled."""
    return cols.out * cols.kernel <= (UNROLLED_DILATED if _is_dilated(cols) else UNROLLED)


def _is_dilated(cols: BorderedAxis) -> bool:
    return cols.dilation > 1 and cols.kernel > 1


def row_of(spec: Conv2d) -> OutputRow:
    """Return what the schedule needs to know of a row."""
    cols = axes_of(spec)[1]
    edges, short = any(cols.crosses), _is_short(cols)
    if edges and not short and _is_dilated(cols):
        return OutputRow(edges=True, short=False, parted=True)
    if edges and not short and cols.kernel > NARROW_KERNEL:
        return OutputRow(edges=True, short=False, columns=WINDOWED_COLUMNS)
    return OutputRow(edges=edges, short=short)


def kernel(dot: Dot, name: str, spec: Conv2d) -> tirx.PrimFunc:
    """Return the unscheduled PrimFunc of template ``name``."""
    (rows, cols), row = axes_of(spec), row_of(spec)
    wide, (icb, steps) = is_wide(cols), channel_steps(dot, spec)
    ocb = -(-spec.out_channels // LANES)
    width = -(-cols.out // ROUND) * ROUND if wide else cols.out
    classes = (len(rows.classes), 1 if wide else len(cols.classes), ocb, LANES)

    def _guards(p: Index, k: Index) -> list[list[Expr]]:
        columns = [] if wide else cols.inside(p[3], k[2])
        return [rows.inside(p[2], k[1]), columns]

    def x(buffers: dict[str, Any], p: Index, k: Index) -> Expr:
        """Read channels of a pixel; in the border of a wide row, select the zero point instead."""
        group = tirx.floordiv(p[1], ocb // spec.groups) * icb
        at, col = rows.source(p[2], k[1]), cols.source(p[3], k[2])
        near = tirx.max(tirx.min(col, spec.width - 1), 0) if wide else col
        lanes = ramp(dot.width, k[3] * dot.width)
        value = buffers["x"][p[0], group + k[0], at, near, lanes]
        inside = cols.inside(p[3], k[2])
        if not (wide and inside):
            return value
        if row.parted:
            inside = [tirx.likely(condition) for condition in inside]
        fill = buffers["z"][0].astype(spec.x) if "z" in buffers else tirx.const(0, "float32")
        return bits_select(tirx.all(*inside), value, fill)

    parts = ContractionKernel(
        template=name,
        buffers=buffers_of(spec, (ocb, icb, *spec.kernel, steps, LANES * dot.width), classes),
        spatial=(spec.batch, ocb, rows.out, width),
        reduction=(icb, *spec.kernel, steps),
        guards=_guards,
        x=x,
        w=lambda p, k: (p[1], *k),
        bias=lambda p: (
            rows.class_of(p[2]),
            tirx.const(0, "int64") if wide else cols.class_of(p[3]),
            p[1],
        ),
        y=lambda p: (*p, ramp(LANES)),
        keep=(lambda p: p[3] < cols.out) if width != cols.out else None,
    )
    return contraction_kernel(spec, dot, parts)


def pack(dot: Dot, spec: Conv2d, params: Arrays, *, whole_rows: bool | None = None) -> Arrays:
    """Pack weights a vector per step, and fold the zero point of x into the bias of each class.

    ``whole_rows`` is as :func:`class_bias` has it; those of wide rows, if it is None.
    """
    if whole_rows is None:
        whole_rows = is_wide(axes_of(spec)[1])
    icb, steps = channel_steps(dot, spec)
    w = channel_blocks(params["w"])  # (ocb, 16, ic, kh, kw)
    short = icb * steps * dot.width - w.shape[2]
    w = np.pad(w, ((0, 0), (0, 0), (0, max(short, 0)), (0, 0), (0, 0)))
    w = w.reshape(len(w), LANES, icb, steps, dot.width, *spec.kernel)
    w = w.transpose(0, 2, 5, 6, 3, 1, 4).reshape(len(w), icb, *spec.kernel, steps, -1)
    packed = pack_with(np.ascontiguousarray(w), params)
    return {**packed, "bias": class_bias(spec, params, whole_rows=whole_rows)}


def class_bias(spec: Conv2d, params: Arrays, *, whole_rows: bool) -> np.ndarray:
    """Return the bias of each class of rows and columns, (rows, columns, oc/16, 16).

    Columns are of one class where rows are read with their border, as ``whole_rows`` says.
    """
    rows, cols = axes_of(spec)
    every, folded = list(range(cols.kernel)), FoldedBias(spec, params)
    row_taps = [rows.taps(position) for position in rows.classes]
    col_taps = [every] if whole_rows else [cols.taps(position) for position in cols.classes]
    return np.stack(
        [np.stack([channel_blocks(folded.of(i, j)) for j in col_taps]) for i in row_taps]
    )


class FoldedBias:
    """The bias less z_x times the weights of the taps that a window keeps."""

    def __init__(self, spec: Conv2d, params: Arrays) -> None:
        self._bias = params["bias"]
        self._taken = np.zeros((spec.out_channels, *spec.kernel), self._bias.dtype)
        if spec.x != "float32":
            self._taken = params["z"][0] * params["w"].sum(axis=1, dtype=np.int64)

    def of(self, rows: list[int], cols: list[int]) -> np.ndarray:
        """Return the bias of windows that keep the taps in ``rows`` and ``cols``, (oc,)."""
        taken = self._taken[:, rows][:, :, cols].sum(axis=(1, 2))
        folded: np.ndarray = (self._bias - taken).astype(self._bias.dtype)
        return folded


def channel_steps(dot: Dot, spec: Conv2d) -> tuple[int, int]:
    """Return the blocks of input channels, and the steps a block takes."""
    channels = spec.in_channels // spec.groups
    return -(-channels // LANES), -(-min(channels, LANES) // dot.width)


def buffers_of(
    spec: Conv2d, weights: Sequence[int], bias: Sequence[int]
) -> dict[str, tuple[Any, str]]:
    """Return shape and type of each argument, images in NCHW16c."""
    known: dict[str, tuple[Any, str]] = {
        **constants(spec, (-(-spec.out_channels // LANES), LANES)),
        "w": (weights, spec.constant_dtype("w")),
        "bias": (bias, spec.constant_dtype("bias")),
    }
    for name in (*spec.tensors, "y"):
        known[name] = (NCHW16C.physical_shape(spec.shape(name)), spec.dtype(name))
    names = (*spec.tensors, *spec.params, "y")
    return {name: known[name] for name in names}
