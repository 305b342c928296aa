"""Convolution over NCHW4c: what dp4a and float kernels have in common.

    x, r, y         : (n, c/b, h, w, b)                       NCHW<b>c, each its own multiple of 4
    w               : (oc/4, ic/4, kh, kw, 4 oc, 4 ic)        OIHW4o4i, ic/4 of a group
    bias, m, m_neg, alpha : (oc/4, 4)

Padding is the zero point, put in while x is staged into shared memory; ``-z_x * sum w`` is part of
the bias. A 1x1 convolution that reads every pixel sees the image as one row. Groups are merged into
words, see ``schedules.cuda.dp4a.channel_groups``.

Exact:  integers always; float32 sums ascend within a tile of the reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target
from tvm.tirx import Expr

from schedules.bodies.arguments import constants, fold_zero_point
from schedules.cuda.dp4a.channel_groups import ChannelGroups, roomy
from schedules.cuda.dp4a.contraction import Contraction, Index, channel_blocks, contraction_kernel
from schedules.cuda.dp4a.default_tiles import default_tiles
from schedules.cuda.dp4a.intrin import LANES, step_of, stored
from schedules.cuda.dp4a.loops import apply
from schedules.cuda.dp4a.split_reduction import slices
from schedules.cuda.dp4a.tiles import crowded, sampled
from schedules.cuda.dp4a.wide_fetch import widened
from schedules.layout import NCHW4C, Layout
from schedules.spec import PER_CHANNEL, Conv2d
from schedules.template import Arrays, Layouts, ScheduleTemplate


def layouts(spec: Conv2d, wanted: Layouts) -> Layouts:
    """Return ``wanted`` where its channels lie in whole words, else NCHW4c.

    Blocks of floats are not wider than a word where the last would be ragged: words past the last
    channel are not written, and floats there must be zero.
    """

    def _word_wise(name: str, layout: Layout) -> Layout:
        ragged = spec.dtype(name) == "float32" and spec.shape(name)[1] % max(layout.block, 1)
        return layout if layout.block and layout.block % LANES == 0 and not ragged else NCHW4C

    names = zip(spec.tensors, wanted.inputs, strict=False)
    return Layouts(
        inputs=tuple(_word_wise(name, layout) for name, layout in names),
        output=_word_wise("y", wanted.output),
    )


def refuses_groups(spec: Conv2d) -> str | None:
    """Say why the groups of ``spec`` do not fall between words of channels, or None."""
    inputs, outputs = spec.in_channels // spec.groups, spec.out_channels // spec.groups
    if spec.groups > 1 and (inputs % LANES or outputs % LANES):
        return f"groups of {inputs} -> {outputs} channels; want multiples of {LANES}"
    return None


def is_flat(spec: Conv2d) -> bool:
    """Whether it reads every pixel once, so that rows do not matter."""
    return spec.kernel == spec.strides == (1, 1) and not any(spec.padding)


def _slices(spec: Conv2d) -> int:
    groups, (rows, cols) = ChannelGroups.of(spec), spec.out_size
    images = spec.batch if isinstance(spec.batch, int) else 1
    taps = spec.kernel[0] * spec.kernel[1]
    return slices(groups.inputs, taps, images * groups.blocks * rows * cols)


def kernel(name: str, spec: Conv2d, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled PrimFunc of template ``name``."""
    rows, cols = (1, spec.height * spec.width) if is_flat(spec) else spec.out_size
    groups, (sh, sw), (dh, dw) = ChannelGroups.of(spec), spec.strides, spec.dilation
    high, wide = roomy(rows), roomy(cols)
    kh, kw = spec.kernel
    places = dict(zip((*spec.tensors, "y"), (*layouts.inputs, layouts.output), strict=True))

    run = _run(spec, places["x"])
    before = _whole_runs(spec.padding[1], run)
    lead = before - spec.padding[1]

    def _source(p: Index, k: Index) -> Index:
        first = tirx.floordiv(p[1], groups.outputs) * groups.inputs if groups.count > 1 else 0
        return (p[0], first + k[0], p[2] * sh + k[1] * dh, p[3] * sw + k[2] * dw + lead)

    def _keep(p: Index, c: Expr) -> list[Expr]:
        limits = ((p[1], -(-spec.out_channels // LANES), groups.blocks), (p[2], rows, high))
        return [axis < size for axis, size, room in (*limits, (p[3], cols, wide)) if size < room]

    def x(buffers: dict[str, Any], place: Index, i: Expr) -> Expr:
        """Read the word ``i`` lanes behind a staged place, from whichever layout x has."""
        word = (*place[:2], *_x_pixel(spec, place[2:], before))
        first = _in_memory(places["x"], word, tirx.const(0, "int64"))
        return step_of(spec).load(buffers["x"], first, i)

    def at(name: str) -> Callable[[Index, Expr], Index]:
        """Return what finds a channel of an output place in tensor ``name``, r or y."""
        return lambda p, c: _in_memory(places[name], (*p[:2], *_pixel(spec, p[2:])), c)

    staged = (
        groups.count * groups.inputs,
        (high - 1) * sh + (kh - 1) * dh + 1,
        _whole_runs(lead + (wide - 1) * sw + (kw - 1) * dw + 1, run),
    )
    parts = Contraction(
        template=name,
        buffers=_buffers(spec, places),
        spatial=(spec.batch, groups.blocks, high, wide),
        reduction=(groups.inputs, kh, kw),
        staged=(spec.batch, *staged),
        inside=lambda place: _inside(spec, staged, place, before),
        x=x,
        run=run,
        strides=(sw, dw),
        source=_source,
        y=at("y"),
        r=at("r") if spec.residual else None,
        keep=_keep,
        slices=_slices(spec),
    )
    return contraction_kernel(spec, parts)


def _in_memory(layout: Layout, word: Index, c: Expr) -> Index:
    """Return where channel ``c`` of a word lies."""
    n, f, h, w = word
    words = layout.block // LANES
    if words == 1:
        return n, f, h, w, c
    return n, tirx.floordiv(f, words), h, w, tirx.floormod(f, words) * LANES + c


def _pixel(spec: Conv2d, place: Index) -> Index:
    """Return the row and the column of a pixel."""
    if not is_flat(spec):
        return place
    return tirx.floordiv(place[1], spec.width), tirx.floormod(place[1], spec.width)


def _x_pixel(spec: Conv2d, place: Index, before: int) -> Index:
    """Return the row and the column of x at a place of the staged image."""
    if is_flat(spec):
        return _pixel(spec, place)
    return place[0] - spec.padding[0], place[1] - before


def _inside(spec: Conv2d, staged: Sequence[int], place: Index, before: int) -> list[Expr]:
    """Return the conditions under which a place of the staged image lies inside x."""
    sizes: Sequence[int] = (spec.height, spec.width)
    if is_flat(spec):
        sizes = (1, spec.height * spec.width)
    words, padding = -(-spec.in_channels // LANES), (0, spec.padding[0], before)
    conditions: list[Expr] = []
    for axis, size, room, first in zip(place[1:], (words, *sizes), staged, padding, strict=True):
        conditions += [axis >= first] if first else []
        conditions += [axis < size + first] if room - first > size else []
    return conditions


def _run(spec: Conv2d, layout: Layout) -> int:
    """Return how many neighbouring words, from a multiple of as many, lie side by side in x.

    They are 16 bytes where that divides a row: then each row begins at such a multiple.
    """
    if layout.block > LANES:
        return 0
    if spec.x == "float32":
        return 1  # a word of four floats is 16 bytes
    return gcd(LANES, spec.height * spec.width if is_flat(spec) else spec.width)


def _whole_runs(columns: int, run: int) -> int:
    """Return ``columns`` rounded up, so that what follows them begins where a run does."""
    return -(-columns // run) * run if run else columns


def _buffers(spec: Conv2d, places: dict[str, Layout]) -> dict[str, tuple[Any, str]]:
    """Return shape and type of each argument."""
    groups = ChannelGroups.of(spec)
    known: dict[str, tuple[Sequence[Any], str]] = {
        **constants(spec, (groups.blocks, LANES)),
        "w": ((groups.blocks, groups.inputs, *spec.kernel, LANES, LANES), step_of(spec).w),
    }
    for name, layout in places.items():
        known[name] = (layout.physical_shape(spec.shape(name)), spec.dtype(name))
    names = (*spec.tensors, *spec.params, "y")
    return {name: known[name] for name in names}


def pack(spec: Conv2d, params: Arrays) -> Arrays:
    """Pack weights as OIHW4o4i, and fold the zero point of x into the bias."""
    groups, folded = ChannelGroups.of(spec), fold_zero_point(spec, params)
    packed = {
        name: channel_blocks(value, groups.blocks) if name in PER_CHANNEL else value
        for name, value in folded.items()
    }
    return {**packed, "w": groups.weights(spec, stored(spec, params["w"]))}


def default(sch: Schedule, spec: Conv2d, target: Target) -> None:
    """Apply fixed tiles."""
    apply(sch, default_tiles(sch, spec, target))


def space(sch: Schedule, spec: Conv2d, target: Target) -> None:
    """Apply the same loops with tiles that MetaSchedule samples."""
    apply(sch, sampled(sch))


def conv2d_template(name: str, refuses: Callable[[Conv2d, Target], str | None]) -> ScheduleTemplate:
    """Return the template of one instruction."""
    return ScheduleTemplate(
        name=name,
        kind="conv2d",
        refuses=refuses,
        layouts=layouts,
        kernel=lambda spec, layouts: kernel(name, spec, layouts),
        default=default,
        space=space,
        crowded=crowded,
        pack=pack,
        finish=widened,
    )
