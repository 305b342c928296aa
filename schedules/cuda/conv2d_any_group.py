"""Convolution of any group structure on a GPU, depthwise included: four channels a thread.

    x, r, y         : (n, c/4, h, w, 4)                       NCHW4c
    w               : (oc/4, kh, kw, ic/groups, 4)            int8, int16 or float32
    bias, m, m_neg, alpha : (oc/4, 4)

Each channel gathers the inputs of its own group from global memory; taps outside the image are
skipped. Where groups are a channel each, four neighbouring bytes of x meet four of w.

Loops: see ``schedules.cuda.elementwise``.
Exact:  int32 sums of ``(x - z_x) * w``; float32 sums ascend over (row, column, channel).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from tvm import te, tirx
from tvm.tirx import Expr

from schedules.bodies.arguments import constants
from schedules.bodies.epilogue import epilogue, type_refusal
from schedules.cuda.device.devices import refuses_cuda
from schedules.cuda.device_math import for_cuda
from schedules.cuda.dp4a.contraction import channel_blocks
from schedules.cuda.dp4a.intrin import LANES
from schedules.cuda.elementwise import default, space
from schedules.layout import NCHW4C
from schedules.spec import PER_CHANNEL, Conv2d
from schedules.template import Arrays, Layouts, ScheduleTemplate

NAME = "conv2d_any_group_cuda"


def layouts(spec: Conv2d, wanted: Layouts) -> Layouts:
    """Return the only layouts it has: NCHW4c."""
    return Layouts(inputs=(NCHW4C,) * len(spec.tensors), output=NCHW4C)


def kernel(spec: Conv2d, _layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled PrimFunc."""
    tensors = {
        name: te.placeholder(shape, dtype, name) for name, (shape, dtype) in _buffers(spec).items()
    }
    shape = NCHW4C.physical_shape(spec.shape("y"))
    window = [
        te.reduce_axis((0, extent), name)
        for extent, name in zip(_window(spec), ("i", "j", "k"), strict=True)
    ]
    acc = te.compute(
        shape, lambda *p: te.sum(_product(spec, tensors, p, window), window), name="window_sum"
    )
    y = te.compute(
        shape,
        lambda *p: _finished(spec, tensors, p, acc(*p)),
        name=spec.kind,
        attrs={"template": NAME},
    )
    func = te.create_prim_func([*tensors.values(), y], index_dtype_override="int64")
    return for_cuda(func.without_attr("global_symbol"))


def _window(spec: Conv2d) -> tuple[int, int, int]:
    return (*spec.kernel, spec.in_channels // spec.groups)


def _product(spec: Conv2d, tensors: dict[str, te.Tensor], p: Any, window: Any) -> Expr:
    """Return the product of one tap, zero outside the image."""
    (n, f, h, w, c), (i, j, k) = p, window
    row = h * spec.strides[0] + i * spec.dilation[0] - spec.padding[0]
    col = w * spec.strides[1] + j * spec.dilation[1] - spec.padding[1]
    block, lane = _source(spec, f, c, k)
    x = tensors["x"](n, block, row, col, lane)
    if spec.x == "float32":
        zero, weight = tirx.const(0, "float32"), tensors["w"](f, i, j, k, c)
    else:
        zero, weight = tirx.const(0, "int32"), tensors["w"](f, i, j, k, c).astype("int32")
        x = x.astype("int32") - tensors["z"](0)
    inside = tirx.all(row >= 0, row < spec.height, col >= 0, col < spec.width)
    return tirx.if_then_else(inside, x, zero) * weight


def _source(spec: Conv2d, f: Expr, c: Expr, k: Expr) -> tuple[Expr, Expr]:
    """Return block and lane of input channel ``k`` of an output channel's group."""
    outputs, inputs = spec.out_channels // spec.groups, spec.in_channels // spec.groups
    if outputs == inputs == 1:
        return f, c
    # Lanes past the last channel read what the last one reads.
    channel = tirx.min(f * LANES + c, spec.out_channels - 1)
    source = tirx.floordiv(channel, outputs) * inputs + k
    return tirx.floordiv(source, LANES), tirx.floormod(source, LANES)


def _finished(spec: Conv2d, tensors: dict[str, te.Tensor], p: Any, acc: Expr) -> Expr:
    _n, f, _h, _w, c = p

    def _load(name: str, element: int | None = None) -> Expr:
        return tensors[name](f, c) if element is None else tensors[name](element)

    r = tensors["r"](*p) if spec.residual else None
    y = epilogue(spec, acc + _load("bias"), _load, r)
    if spec.y != "float32" or spec.out_channels % LANES == 0:
        return y
    return tirx.Select(f * LANES + c < spec.out_channels, y, tirx.const(0, "float32"))


def _buffers(spec: Conv2d) -> dict[str, tuple[Any, str]]:
    """Return shape and type of each argument but y."""
    blocks = -(-spec.out_channels // LANES)
    known: dict[str, tuple[Any, str]] = {
        **constants(spec, (blocks, LANES)),
        "w": ((blocks, *_window(spec), LANES), spec.constant_dtype("w")),
    }
    for name in spec.tensors:
        known[name] = (NCHW4C.physical_shape(spec.shape(name)), spec.dtype(name))
    names = (*spec.tensors, *spec.params)
    return {name: known[name] for name in names}


def pack(spec: Conv2d, params: Arrays) -> Arrays:
    """Repack w (oc, ic/groups, kh, kw) as (oc/4, kh, kw, ic/groups, 4)."""
    blocks = -(-spec.out_channels // LANES)
    w = channel_blocks(params["w"], blocks).transpose(0, 3, 4, 2, 1)
    packed = {
        name: channel_blocks(value, blocks) if name in PER_CHANNEL else value
        for name, value in params.items()
    }
    return {**packed, "w": np.ascontiguousarray(w)}


CONV2D_ANY_GROUP_CUDA = ScheduleTemplate(
    name=NAME,
    kind="conv2d",
    refuses=lambda spec, target: refuses_cuda(target) or type_refusal(spec, weights=spec.weights),
    layouts=layouts,
    kernel=kernel,
    default=partial(default, NAME),
    space=partial(space, NAME),
    pack=pack,
)
