"""Matrix product with constant weights on a GPU: the convolution of a row of pixels.

    x               : (rows, k)
    w               : (n/4, k/4, 1, 1, 4 n, 4 k)
    bias, m, m_neg, alpha : (n/4, 4)
    y               : (rows, n)

Rows of x are the pixels, k the input channels. Where four does not divide k, words are put together
byte by byte, since they do not lie at multiples of four bytes.

Exact:  integers always; float32 sums ascend within a tile of the reduction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target
from tvm.tirx import Expr

from schedules.bodies.arguments import constants, fold_zero_point
from schedules.bodies.epilogue import type_refusal
from schedules.cuda.device.devices import refuses_dp4a, refuses_f32
from schedules.cuda.dp4a.channel_groups import roomy
from schedules.cuda.dp4a.contraction import (
    Contraction,
    Index,
    channel_blocks,
    contraction_kernel,
    where,
)
from schedules.cuda.dp4a.default_tiles import default_tiles
from schedules.cuda.dp4a.intrin import LANES, step_of, stored
from schedules.cuda.dp4a.loops import apply
from schedules.cuda.dp4a.split_reduction import slices
from schedules.cuda.dp4a.tiles import crowded, sampled
from schedules.layout import ROW
from schedules.spec import PER_CHANNEL, Dense
from schedules.template import Arrays, Layouts, ScheduleTemplate


def layouts(spec: Dense, wanted: Layouts) -> Layouts:
    """Return the only layouts it has: row major."""
    return Layouts(inputs=(ROW,), output=ROW)


def kernel(name: str, spec: Dense) -> tirx.PrimFunc:
    """Return the unscheduled PrimFunc of template ``name``; symbolic rows are outermost."""
    is_symbolic = not isinstance(spec.rows, int)
    images, pixels = (spec.rows, 1) if isinstance(spec.rows, tirx.Var) else (1, spec.rows)
    wide, out = roomy(pixels), roomy(-(-spec.n // LANES))

    def _row(n: Expr, w: Expr) -> Expr:
        return n if is_symbolic else w

    def _keep(p: Index, c: Expr) -> list[Expr]:
        column, in_row = p[1] * LANES + c, [p[3] < pixels] if pixels < wide else []
        if spec.n % LANES:
            return [*in_row, column < spec.n]
        return [*in_row, *([p[1] < spec.n // LANES] if out * LANES > spec.n else [])]

    parts = Contraction(
        template=name,
        buffers=_buffers(spec, out),
        spatial=(images, out, 1, wide),
        reduction=(-(-spec.k // LANES), 1, 1),
        staged=(images, -(-spec.k // LANES), 1, wide),
        inside=lambda place: [place[3] < pixels] if pixels < wide else [],
        x=lambda buffers, place, i: _word(
            spec, buffers["x"], _row(place[0], place[3]), place[1] * LANES, i
        ),
        run=0,
        source=lambda p, k: (p[0], k[0], 0, p[3]),
        y=lambda p, c: (_row(p[0], p[3]), p[1] * LANES + c),
        keep=_keep,
        slices=slices(-(-spec.k // LANES), 1, out * pixels),
    )
    return contraction_kernel(spec, parts)


def _word(spec: Dense, x: Any, row: Expr, start: Expr, i: Expr) -> Expr:
    """Return word i of the four elements of a row that begin at ``start``."""
    step = step_of(spec)
    if spec.k % LANES == 0:
        return step.load(x, (row, start), i)
    if spec.x == "float32":
        value = step.load(x, (row, start), i)
        return where([start + i < spec.k], value, tirx.const(0, "float32"))
    word: Expr = tirx.const(0, step.word)
    for lane in range(LANES):
        byte = (x[row, start + lane].astype("int32") & 0xFF).astype(step.word)
        shifted = byte << tirx.const(8 * lane, step.word)
        word = word | where([start + lane < spec.k], shifted, tirx.const(0, step.word))
    return word


def _buffers(spec: Dense, out: int) -> dict[str, tuple[Any, str]]:
    """Return shape and type of each argument."""
    weights = (out, -(-spec.k // LANES), 1, 1, LANES, LANES)
    known: dict[str, tuple[Any, str]] = {
        **constants(spec, (out, LANES)),
        "x": ((spec.rows, spec.k), spec.x),
        "w": (weights, step_of(spec).w),
        "y": ((spec.rows, spec.n), spec.y),
    }
    names = (*spec.tensors, *spec.params, "y")
    return {name: known[name] for name in names}


def pack(spec: Dense, params: Arrays) -> Arrays:
    """Pack weights as OIHW4o4i, and fold the zero point of x into the bias."""
    out, folded = roomy(-(-spec.n // LANES)), fold_zero_point(spec, params)
    w = channel_blocks(stored(spec, params["w"]), out)  # (n/4, 4, k)
    w = np.pad(w, ((0, 0), (0, 0), (0, -spec.k % LANES)))
    w = w.reshape(out, LANES, 1, 1, -1, LANES).transpose(0, 4, 2, 3, 1, 5)
    packed = {
        name: channel_blocks(value, out) if name in PER_CHANNEL else value
        for name, value in folded.items()
    }
    return {**packed, "w": np.ascontiguousarray(w)}


def default(sch: Schedule, spec: Dense, target: Target) -> None:
    """Apply fixed tiles."""
    apply(sch, default_tiles(sch, spec, target))


def space(sch: Schedule, spec: Dense, target: Target) -> None:
    """Apply the same loops with tiles that MetaSchedule samples."""
    apply(sch, sampled(sch))


def _template(name: str, refuses: Callable[[Dense, Target], str | None]) -> ScheduleTemplate:
    return ScheduleTemplate(
        name=name,
        kind="dense",
        refuses=refuses,
        layouts=layouts,
        kernel=lambda spec, _layouts: kernel(name, spec),
        default=default,
        space=space,
        crowded=crowded,
        pack=pack,
    )


DENSE_DP4A = _template(
    "dense_dp4a",
    lambda spec, target: refuses_dp4a(spec.x, target) or type_refusal(spec),
)
DENSE_F32_CUDA = _template(
    "dense_f32_cuda",
    lambda spec, target: refuses_f32(spec.x, target) or type_refusal(spec),
)
DENSE_F16_CUDA = _template(
    "dense_f16_cuda",
    lambda spec, target: refuses_f32(spec.x, target) or type_refusal(spec, half=True),
)
