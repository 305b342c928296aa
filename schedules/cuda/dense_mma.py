"""Matrix product with constant weights by tensor cores: the convolution of a row of pixels.

    x               : (rows, k)                        k a multiple of 16
    w               : (n/32, slabs, 1024)              see ``schedules.cuda.mma_weights``
    bias, m, m_neg  : (n/32, 32)
    y               : (rows, n)

Loops:  see ``schedules.cuda.mma_gemm``.
Exact:  int32 sums, requantized in registers.
"""

from __future__ import annotations

import numpy as np
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target
from tvm.tirx import Expr

from schedules.cpu.epilogue import type_refusal
from schedules.cuda.devices import refuses_mma
from schedules.cuda.mma_estimate import default_tiles
from schedules.cuda.mma_gemm import apply, gemm_kernel
from schedules.cuda.mma_place import Gemm, Index
from schedules.cuda.mma_tiles import CHUNK, sampled
from schedules.cuda.mma_weights import BLOCK, SLAB_BYTES, pack_channels, pack_weights
from schedules.cuda.mma_write import MULTIPLIERS
from schedules.layout import ROW
from schedules.spec import Dense
from schedules.template import Arrays, Layouts, ScheduleTemplate

NAME = "dense_mma"


def refuses(spec: Dense, target: Target) -> str | None:
    """Say why the template cannot be used, or None."""
    return refuses_mma(spec.x, target) or type_refusal(spec) or _refuses_rows(spec)


def _refuses_rows(spec: Dense) -> str | None:
    if spec.k % CHUNK:
        return f"rows of {spec.k} bytes; want multiples of {CHUNK}, which are copied at once"
    return None


def layouts(spec: Dense, wanted: Layouts) -> Layouts:
    """Return the only layouts it has: row major."""
    return Layouts(inputs=(ROW,), output=ROW)


def gemm(spec: Dense) -> Gemm:
    """Return the product as the kernel counts it; symbolic rows are images of one pixel."""
    is_static = isinstance(spec.rows, int)

    def x(image: Expr, row: Expr, _group: Expr, slab: Expr, byte: Expr) -> tuple[Index, list[Expr]]:
        k = slab * BLOCK + byte
        return (row if is_static else image, k), [k < spec.k] if spec.k % BLOCK else []

    def y(image: Expr, row: Expr, channel: Expr) -> Index:
        return row if is_static else image, channel

    return Gemm(
        template=NAME,
        buffers=_buffers(spec),
        images=1 if is_static else spec.rows,
        rows=spec.rows if isinstance(spec.rows, int) else 1,
        groups=1,
        blocks=-(-spec.n // BLOCK),
        slabs=-(-spec.k // BLOCK),
        x=x,
        y=y,
        channels=spec.n if spec.n % BLOCK else None,
    )


def _buffers(spec: Dense) -> dict[str, tuple[Index, str]]:
    """Return shape and type of each argument."""
    blocks, slabs = -(-spec.n // BLOCK), -(-spec.k // BLOCK)
    known: dict[str, tuple[Index, str]] = {
        "x": ((spec.rows, spec.k), spec.x),
        "w": ((blocks, slabs, SLAB_BYTES), "int8"),
        "bias": ((blocks, BLOCK), "int32"),
        "z": ((3,), "int32"),
        "clamp": ((2,), "float32"),
        "y": ((spec.rows, spec.n), spec.y),
    }
    names = (*spec.tensors, *spec.params, "y")
    return {name: known.get(name, ((blocks, BLOCK), "float32")) for name in names}


def kernel(spec: Dense, _layouts: Layouts) -> tirx.PrimFunc:
    """Return the kernel of one warp with the smallest tiles."""
    return gemm_kernel(spec, gemm(spec))


def pack(spec: Dense, params: Arrays) -> Arrays:
    """Put the weights in the order of the threads; fold the zero point of x into the bias."""
    total = params["w"].sum(axis=1, dtype=np.int64)
    bias = (params["bias"] - params["z"][0] * total).astype(np.int32)
    packed = {
        name: pack_channels(value) if name in ("bias", *MULTIPLIERS) else value
        for name, value in {**params, "bias": bias}.items()
    }
    return {**packed, "w": pack_weights(np.asarray(params["w"]))}


def default(sch: Schedule, spec: Dense, target: Target) -> None:
    """Apply fixed tiles."""
    product = gemm(spec)
    apply(sch, spec, product, default_tiles(product, target))


def space(sch: Schedule, spec: Dense, target: Target) -> None:
    """Apply the same loops with tiles that MetaSchedule samples."""
    product = gemm(spec)
    apply(sch, spec, product, sampled(sch, product.rows, product.blocks))


DENSE_MMA = ScheduleTemplate(
    name=NAME,
    kind="dense",
    refuses=refuses,
    layouts=layouts,
    kernel=kernel,
    default=default,
    space=space,
    pack=pack,
    x_types=("uint8", "int8"),
)
