"""Matrix product with constant weights by tensor cores: the convolution of a row of pixels.

    x               : (rows, k)                        k a multiple of 16
    w               : (n/32, slabs, 1024)              see ``schedules.cuda.mma.weights``
    bias, m, m_neg  : (n/32, 32)
    y               : (rows, n)

Loops:  see ``schedules.cuda.mma.gemm``.
Exact:  int32 sums, requantized in registers.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.cuda.mma.operands import Gemm, Index
from schedules.cuda.mma.template import gemm_buffers, mma_template
from schedules.cuda.mma.tiles import CHUNK
from schedules.cuda.mma.weights import BLOCK
from schedules.layout import ROW
from schedules.spec import Dense

NAME = "dense_mma"


def _refuses_rows(spec: Dense) -> str | None:
    if spec.k % CHUNK:
        return f"rows of {spec.k} bytes; want multiples of {CHUNK}, which are copied at once"
    return None


def gemm(spec: Dense) -> Gemm:
    """Return the product as the kernel counts it; symbolic rows are images of one pixel."""
    is_static = isinstance(spec.rows, int)

    def x(image: Expr, row: Expr, _group: Expr) -> tuple[Expr, None]:
        """Find the first byte of a row."""
        return tirx.Cast("int64", row if is_static else image) * spec.k, None

    def y(image: Expr, row: Expr, channel: Expr) -> Index:
        """Find a channel of a row of y, which is row major."""
        return row if is_static else image, channel

    return Gemm(
        template=NAME,
        buffers=gemm_buffers(spec, ROW, -(-spec.n // BLOCK), -(-spec.k // BLOCK)),
        images=1 if is_static else spec.rows,
        rows=spec.rows if isinstance(spec.rows, int) else 1,
        groups=1,
        blocks=-(-spec.n // BLOCK),
        slabs=-(-spec.k // BLOCK),
        x=x,
        y=y,
        block_bytes=BLOCK,
        depth=spec.k if spec.k % BLOCK else None,
        channels=spec.n if spec.n % BLOCK else None,
    )


DENSE_MMA = mma_template(NAME, "dense", gemm, _refuses_rows, ROW)
