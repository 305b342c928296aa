"""Convolution by tensor cores, NCHW32c: every window and padding; groups of whole blocks.

    x, r, y               : (n, c/32, h, w, 32)                  NCHW32c
    w                     : (oc/32, slabs, 1024)                 see ``schedules.cuda.mma_weights``
    bias, m, m_neg        : (oc/32, 32)

An implicit product of matrices: a pixel of y by the 32 channels of one tap is one slab of one row.
Padding is the zero point, put in while x is staged; ``-z_x * sum w`` is part of the bias.

Loops:  see ``schedules.cuda.mma_gemm``.
Exact:  int32 sums, requantized in registers.
"""

from __future__ import annotations

import numpy as np
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target
from tvm.tirx import Expr

from schedules.cpu.conv_arguments import fold_zero_point
from schedules.cpu.epilogue import type_refusal
from schedules.cuda.devices import refuses_mma
from schedules.cuda.mma_estimate import default_tiles
from schedules.cuda.mma_gemm import apply, gemm_kernel
from schedules.cuda.mma_place import Gemm, Index
from schedules.cuda.mma_tiles import sampled
from schedules.cuda.mma_weights import BLOCK, SLAB_BYTES, pack_channels, pack_weights
from schedules.cuda.mma_write import MULTIPLIERS
from schedules.layout import NCHW32C
from schedules.spec import Conv2d
from schedules.template import Arrays, Layouts, ScheduleTemplate

NAME = "conv2d_mma"


def refuses(spec: Conv2d, target: Target) -> str | None:
    """Say why the template cannot be used, or None."""
    return refuses_mma(spec.x, target) or type_refusal(spec) or _refuses_groups(spec)


def _refuses_groups(spec: Conv2d) -> str | None:
    inputs, outputs = spec.in_channels // spec.groups, spec.out_channels // spec.groups
    if spec.groups > 1 and (inputs % BLOCK or outputs % BLOCK):
        return f"groups of {inputs} -> {outputs} channels; want multiples of {BLOCK}"
    return None


def layouts(spec: Conv2d, wanted: Layouts) -> Layouts:
    """Return the only layouts it has: NCHW32c."""
    return Layouts(inputs=(NCHW32C,) * len(spec.tensors), output=NCHW32C)


def gemm(spec: Conv2d) -> Gemm:
    """Return the product that the convolution is."""
    rows, cols = spec.out_size
    kh, kw = spec.kernel
    is_static = isinstance(spec.batch, int)
    in_blocks = -(-(spec.in_channels // spec.groups) // BLOCK)

    def pixel(image: Expr, row: Expr) -> Index:
        """Return image, row and column of a pixel of y."""
        n = tirx.floordiv(row, rows * cols) if is_static else image
        h = tirx.floordiv(row, cols)
        return n, tirx.floormod(h, rows) if is_static else h, tirx.floormod(row, cols)

    def x(image: Expr, row: Expr, group: Expr, slab: Expr, byte: Expr) -> tuple[Index, list[Expr]]:
        n, y_h, y_w = pixel(image, row)
        tap = tirx.floormod(slab, kh * kw)
        place = (
            y_h * spec.strides[0] + tirx.floordiv(tap, kw) * spec.dilation[0] - spec.padding[0],
            y_w * spec.strides[1] + tirx.floormod(tap, kw) * spec.dilation[1] - spec.padding[1],
        )
        channels = group * in_blocks + tirx.floordiv(slab, kh * kw)
        return (n, channels, *place, byte), _inside(spec, place)

    def y(image: Expr, row: Expr, channel: Expr) -> Index:
        n, h, w = pixel(image, row)
        return n, tirx.floordiv(channel, BLOCK), h, w, tirx.floormod(channel, BLOCK)

    return Gemm(
        template=NAME,
        buffers=_buffers(spec, in_blocks * kh * kw),
        images=1 if is_static else spec.batch,
        rows=rows * cols * (spec.batch if isinstance(spec.batch, int) else 1),
        groups=spec.groups,
        blocks=-(-(spec.out_channels // spec.groups) // BLOCK),
        slabs=in_blocks * kh * kw,
        x=x,
        y=y,
    )


def _inside(spec: Conv2d, place: Index) -> list[Expr]:
    """Return the conditions under which a window's pixel lies in x, as far as they can fail."""
    conditions = []
    for axis, size in enumerate((spec.height, spec.width)):
        reach = (spec.out_size[axis] - 1) * spec.strides[axis]
        reach += (spec.kernel[axis] - 1) * spec.dilation[axis] - spec.padding[axis]
        if spec.padding[axis]:
            conditions.append(place[axis] >= 0)
        if reach >= size:
            conditions.append(place[axis] < size)
    return conditions


def _buffers(spec: Conv2d, slabs: int) -> dict[str, tuple[Index, str]]:
    """Return shape and type of each argument."""
    blocks = -(-spec.out_channels // BLOCK)
    known: dict[str, tuple[Index, str]] = {
        "w": ((blocks, slabs, SLAB_BYTES), "int8"),
        "bias": ((blocks, BLOCK), "int32"),
        "z": ((3,), "int32"),
        "m_r": ((1,), "float32"),
        "clamp": ((2,), "float32"),
    }
    for name in (*spec.tensors, "y"):
        known[name] = (NCHW32C.physical_shape(spec.shape(name)), spec.dtype(name))
    names = (*spec.tensors, *spec.params, "y")
    return {name: known.get(name, ((blocks, BLOCK), "float32")) for name in names}


def kernel(spec: Conv2d, _layouts: Layouts) -> tirx.PrimFunc:
    """Return the kernel of one warp with the smallest tiles."""
    return gemm_kernel(spec, gemm(spec))


def pack(spec: Conv2d, params: Arrays) -> Arrays:
    """Put the weights in the order of the threads; fold the zero point of x into the bias."""
    folded = fold_zero_point(spec, params)
    packed = {
        name: pack_channels(value) if name in ("bias", *MULTIPLIERS) else value
        for name, value in folded.items()
    }
    return {**packed, "w": pack_weights(np.asarray(params["w"]))}


def default(sch: Schedule, spec: Conv2d, target: Target) -> None:
    """Apply fixed tiles."""
    product = gemm(spec)
    apply(sch, spec, product, default_tiles(product, target))


def space(sch: Schedule, spec: Conv2d, target: Target) -> None:
    """Apply the same loops with tiles that MetaSchedule samples."""
    product = gemm(spec)
    apply(sch, spec, product, sampled(sch, product.rows, product.blocks))


CONV2D_MMA = ScheduleTemplate(
    name=NAME,
    kind="conv2d",
    refuses=refuses,
    layouts=layouts,
    kernel=kernel,
    default=default,
    space=space,
    pack=pack,
    x_types=("uint8", "int8"),
)
