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

from schedules.cuda.mma.operands import Gemm, Index
from schedules.cuda.mma.template import gemm_buffers, mma_template
from schedules.cuda.mma.weights import BLOCK
from schedules.layout import NCHW32C
from schedules.spec import Conv2d

NAME = "conv2d_mma"


MOST_TAPS = 62  # rows and columns of a window, whose bits are of one number


def _refuses_shape(spec: Conv2d) -> str | None:
    inputs, outputs = spec.in_channels // spec.groups, spec.out_channels // spec.groups
    if spec.groups > 1 and (inputs % BLOCK or outputs % BLOCK):
        return f"groups of {inputs} -> {outputs} channels; want multiples of {BLOCK}"
    if sum(spec.kernel) > MOST_TAPS:
        rows, cols = spec.kernel
        return f"a window of {rows} x {cols}; want at most {MOST_TAPS} rows and columns together"
    return None


def gemm(spec: Conv2d) -> Gemm:
    """Return the product that the convolution is."""
    rows, cols = spec.out_size
    kh, kw = spec.kernel
    is_static = isinstance(spec.batch, int)
    in_blocks = -(-(spec.in_channels // spec.groups) // BLOCK)
    border = _border(spec)

    def pixel(image: Expr, row: Expr) -> Index:
        """Return image, row and column of a pixel of y."""
        n = tirx.floordiv(row, rows * cols) if is_static else image
        h = tirx.floordiv(row, cols)
        return n, tirx.floormod(h, rows) if is_static else h, tirx.floormod(row, cols)

    def x(image: Expr, row: Expr, group: Expr) -> tuple[Expr, Expr | None]:
        """Find the first slab of a pixel, and what of its window is outside of the image."""
        n, y_h, y_w = pixel(image, row)
        h = y_h * spec.strides[0] - spec.padding[0]
        w = y_w * spec.strides[1] - spec.padding[1]
        block = n * (in_blocks * spec.groups) + group * in_blocks
        first = ((tirx.Cast("int64", block) * spec.height + h) * spec.width + w) * BLOCK
        return first, _outside(spec, border, (h, w), product.window_type) if border else None

    def y(image: Expr, row: Expr, channel: Expr) -> Index:
        """Find a channel of a pixel of y in blocks of channels."""
        n, h, w = pixel(image, row)
        return n, tirx.floordiv(channel, BLOCK), h, w, tirx.floormod(channel, BLOCK)

    product = Gemm(
        template=NAME,
        buffers=gemm_buffers(spec, NCHW32C, -(-spec.out_channels // BLOCK), in_blocks * kh * kw),
        images=1 if is_static else spec.batch,
        rows=rows * cols * (spec.batch if isinstance(spec.batch, int) else 1),
        groups=spec.groups,
        blocks=-(-(spec.out_channels // spec.groups) // BLOCK),
        slabs=in_blocks * kh * kw,
        x=x,
        y=y,
        block_bytes=spec.height * spec.width * BLOCK,
        taps=(kh, kw),
        tap_bytes=(spec.dilation[0] * spec.width * BLOCK, spec.dilation[1] * BLOCK),
        has_border=bool(border),
    )
    return product


def _border(spec: Conv2d) -> list[tuple[int, int, bool, bool]]:
    """Return axis and number of the taps that can be outside, before and behind the image."""
    taps = []
    for axis, size in enumerate((spec.height, spec.width)):
        last = (spec.out_size[axis] - 1) * spec.strides[axis] - spec.padding[axis]
        for tap in range(spec.kernel[axis]):
            offset = tap * spec.dilation[axis]
            before, behind = offset < spec.padding[axis], last + offset >= size
            if before or behind:
                taps.append((axis, tap, before, behind))
    return taps


def _outside(
    spec: Conv2d, border: list[tuple[int, int, bool, bool]], first: Index, dtype: str
) -> Expr:
    """Return the bits of the rows and columns that are outside, for a window that begins there."""
    bits, zero = tirx.const(0, dtype), tirx.const(0, dtype)
    for axis, tap, before, behind in border:
        position = first[axis] + tap * spec.dilation[axis]
        misses = [position < 0] * before + [position >= (spec.height, spec.width)[axis]] * behind
        bit = tirx.const(1 << (axis * spec.kernel[0] + tap), dtype)
        bits = bits | tirx.Select(tirx.any(*misses), bit, zero)
    return bits


CONV2D_MMA = mma_template(NAME, "conv2d", gemm, _refuses_shape, NCHW32C)
