"""Convolution by tensor cores, NCHW32c: every window and padding; groups of whole blocks.

    x, r, y               : (n, c/32, h, w, 32)                  NCHW32c
    w                     : (oc/32, slabs, 1024)                 see ``schedules.cuda.mma.weights``
    bias, m, m_neg        : (oc/32, 32)

An implicit product of matrices: a pixel of y by the 32 channels of one tap is one slab of one row.
Padding is the zero point, put in while x is staged; ``-z_x * sum w`` is part of the bias.

Loops:  see ``schedules.cuda.mma.gemm``.
Exact:  int32 sums, requantized in registers.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.cuda.mma.place import Gemm, Index
from schedules.cuda.mma.template import gemm_buffers, mma_template
from schedules.cuda.mma.weights import BLOCK
from schedules.layout import NCHW32C
from schedules.spec import Conv2d

NAME = "conv2d_mma"


def _refuses_groups(spec: Conv2d) -> str | None:
    inputs, outputs = spec.in_channels // spec.groups, spec.out_channels // spec.groups
    if spec.groups > 1 and (inputs % BLOCK or outputs % BLOCK):
        return f"groups of {inputs} -> {outputs} channels; want multiples of {BLOCK}"
    return None


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
        """Find a byte of a pixel's slab in the image: a slab is one tap's block of channels."""
        n, y_h, y_w = pixel(image, row)
        tap = tirx.floormod(slab, kh * kw)
        place = (
            y_h * spec.strides[0] + tirx.floordiv(tap, kw) * spec.dilation[0] - spec.padding[0],
            y_w * spec.strides[1] + tirx.floormod(tap, kw) * spec.dilation[1] - spec.padding[1],
        )
        channels = group * in_blocks + tirx.floordiv(slab, kh * kw)
        return (n, channels, *place, byte), _inside(spec, place)

    def y(image: Expr, row: Expr, channel: Expr) -> Index:
        """Find a channel of a pixel of y in blocks of channels."""
        n, h, w = pixel(image, row)
        return n, tirx.floordiv(channel, BLOCK), h, w, tirx.floormod(channel, BLOCK)

    return Gemm(
        template=NAME,
        buffers=gemm_buffers(spec, NCHW32C, -(-spec.out_channels // BLOCK), in_blocks * kh * kw),
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


CONV2D_MMA = mma_template(NAME, "conv2d", gemm, _refuses_groups, NCHW32C)
