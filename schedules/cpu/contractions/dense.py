"""Matrix product with constant weights, row major, for any instruction flavour.

    x       : (rows, k)
    w       : (n/16, k/width/u, u, 16 lanes * width)   a vector per step, u steps unrolled
    bias, m, m_neg, alpha : (n/16, 16)
    y       : (rows, n)

Where width does not divide k, the last step reads the last ``width`` elements of a row again, with
zero weights for those it has seen. Lanes past n are computed, not stored.

Rows of many columns whose number 16 does not divide begin anywhere in a line of the cache. A store
that crosses lines waits for both, so lines are asked for some blocks ahead (decision 110).

Exact:  integers always; float32 sums ascend over k.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import constants
from schedules.bodies.buffers import ramp
from schedules.bodies.epilogue import type_refusal
from schedules.cpu.dot import LANES, Dot
from schedules.cpu.tiles.contraction import ContractionKernel, Index, contraction_kernel
from schedules.cpu.tiles.conv_arguments import channel_blocks, pack_with
from schedules.cpu.tiles.prefetch import asked_to_write
from schedules.cpu.tiles.register_tiles import UNROLLED_STEPS
from schedules.cpu.tiles.tile_rule import OutputRow
from schedules.layout import ROW
from schedules.spec import Dense
from schedules.template import Arrays, Layouts

LARGE_BYTES = 1 << 18  # of y: half of a second cache
ON_THEIR_WAY = 3  # blocks whose lines have been asked for
SHORT = 64  # rows of x that may be unrolled where tiles do not divide them


def refuses(dot: Dot, spec: Dense, target: Target) -> str | None:
    """Say why ``spec`` cannot be computed with ``dot`` on ``target``, or None."""
    refusal = dot.refuses(spec.x, target) or type_refusal(spec, weights=dot.weights)
    if refusal is None and spec.k < dot.width:
        return f"k = {spec.k} is less than the {dot.width} elements of a step"
    return refusal


def layouts(spec: Dense, wanted: Layouts) -> Layouts:
    """Return the only layouts it has: row major."""
    return Layouts(inputs=(ROW,), output=ROW)


def row_of(spec: Dense) -> OutputRow:
    """Return what the schedule needs to know of the rows of x."""
    # Rows whose length is a power of two share the sets of the first cache, which has eight ways.
    short = isinstance(spec.rows, int) and spec.rows <= SHORT
    return OutputRow(short=short, columns=8, ragged=isinstance(spec.rows, int))


def kernel(dot: Dot, name: str, spec: Dense) -> tirx.PrimFunc:
    """Return the unscheduled PrimFunc of template ``name``; symbolic rows are outermost."""
    blocks, steps, symbolic = (
        -(-spec.n // LANES),
        steps_of(dot, spec),
        not isinstance(spec.rows, int),
    )

    def _row(p: Index) -> Expr:
        return p[0] if symbolic else p[3]

    def x(buffers: dict[str, Any], p: Index, k: Index) -> Expr:
        """Read the next elements of a row."""
        return buffers["x"][_row(p), step_elements(dot, spec, k)]

    def _store(buffer: Any, p: Index, y: Expr) -> None:
        store_lanes(spec, buffer, _row(p), p[1], y)

    parts = ContractionKernel(
        template=name,
        buffers=buffers_of(dot, spec),
        spatial=(spec.rows if symbolic else 1, blocks, 1, 1 if symbolic else spec.rows),
        reduction=steps,
        guards=lambda p, k: [],
        x=x,
        w=lambda p, k: (p[1], *k),
        bias=lambda p: (p[1],),
        y=lambda p: (_row(p), ramp(LANES, p[1] * LANES)),
        store=_store if spec.n % LANES else None,
    )
    return contraction_kernel(spec, dot, parts)


def step_elements(dot: Dot, spec: Dense, k: Index) -> Expr:
    """Return which elements of a row a step reads; the last begins early enough to end with it."""
    start = (k[0] * steps_of(dot, spec)[1] + k[1]) * dot.width
    if spec.k % dot.width:
        start = tirx.min(start, spec.k - dot.width)
    return ramp(dot.width, start)


def store_lanes(spec: Dense, buffer: Any, row: Expr, block: Expr, y: Expr) -> None:
    """Emit the store of the lanes of a block that exist."""
    if spec.n % LANES == 0:
        T.buffer_store(buffer, y, [row, ramp(LANES, block * LANES)])
        return
    value = IRBuilder.name("lanes", T.Bind(y))
    with T.If(block < spec.n // LANES):
        with T.Then():
            T.buffer_store(buffer, value, [row, ramp(LANES, block * LANES)])
            if _is_large(spec):
                T.evaluate(asked_to_write(buffer, [row, (block + ON_THEIR_WAY) * LANES]))
        with T.Else():
            for lane in range(spec.n % LANES):
                element = tirx.Shuffle([value], [lane])
                T.buffer_store(buffer, element, [row, block * LANES + lane])


def _is_large(spec: Dense) -> bool:
    """Whether y has several rows, and more of it than caches hold; symbolic rows may be few."""
    if not isinstance(spec.rows, int) or spec.rows == 1:
        return False
    return spec.rows * spec.n * np.dtype(spec.y).itemsize > LARGE_BYTES


def pack(dot: Dot, spec: Dense, params: Arrays) -> Arrays:
    """Pack weights a vector per step, and fold the zero point of x into the bias."""
    outer, inner = steps_of(dot, spec)
    w = channel_blocks(params["w"])  # (n/16, 16, k)
    rest = spec.k % dot.width
    if rest:
        whole = spec.k - rest
        unseen = np.pad(w[:, :, whole:], ((0, 0), (0, 0), (dot.width - rest, 0)))
        w = np.concatenate([w[:, :, :whole], unseen], axis=2)
    w = w.reshape(len(w), LANES, outer, inner, dot.width).transpose(0, 2, 3, 1, 4)
    bias = params["bias"]
    if spec.x != "float32":
        total = params["w"].sum(axis=1, dtype=np.int64)
        bias = (bias - params["z"][0] * total).astype(np.int32)
    weights = np.ascontiguousarray(w).reshape(*w.shape[:3], -1)
    return pack_with(weights, {**params, "bias": bias})


def steps_of(dot: Dot, spec: Dense) -> tuple[int, int]:
    """Return the steps of the reduction, outer and unrolled."""
    steps = -(-spec.k // dot.width)
    inner = max(d for d in range(1, UNROLLED_STEPS + 1) if steps % d == 0)
    return steps // inner, inner


def buffers_of(dot: Dot, spec: Dense) -> dict[str, tuple[Any, str]]:
    """Return shape and type of each argument."""
    blocks = -(-spec.n // LANES)
    weights = (blocks, *steps_of(dot, spec), LANES * dot.width)
    known: dict[str, tuple[Any, str]] = {
        **constants(spec, (blocks, LANES)),
        "x": ((spec.rows, spec.k), spec.x),
        "w": (weights, spec.constant_dtype("w")),
        "y": ((spec.rows, spec.n), spec.y),
    }
    return {name: known[name] for name in (*spec.tensors, *spec.params, "y")}
