"""Put row-major images of any size into blocks of 16 channels: what an input of a layer needs.

    x : (1, c, h, w)            row major
    y : (1, c/16, h, w, 16)     NCHW16c, zero past the last channel

Loops after scheduling (p parallel): p:block  position  lane

Exact:  elements are moved.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from schedules.bodies.buffers import declare_arguments, flat, whole
from schedules.bodies.prim_func import axes, prim_func
from schedules.cpu.elementwise import refuses_cpu
from schedules.cpu.outermost import share_outermost
from schedules.layout import NCHW16C, ROW
from schedules.spec import Move, OpenPack
from schedules.template import Layouts, ScheduleTemplate

NAME = "pack_open"
LANES = NCHW16C.block


def opened(spec: Move, layouts: Layouts) -> OpenPack | None:
    """Return the kernel for all sizes that computes ``spec``, or None where there is none."""
    batch = spec.shape("x")[0]
    is_one = isinstance(batch, int) and batch == 1
    if spec.move != "copy" or spec.x != "float32" or not is_one:
        return None
    if layouts.inputs != (ROW,) or layouts.output != NCHW16C:
        return None
    names = ("channels", "height", "width", "blocks")
    channels, height, width, blocks = (tirx.Var(name, "int64") for name in names)
    return OpenPack(x_shape=(channels, height, width), blocks=(blocks,))


def kernel(spec: OpenPack, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    shapes: dict[str, Any] = {name: (spec.shape(name), "float32") for name in ("x", "y")}
    sizes: tuple[Any, ...] = spec.x_shape
    channels, positions, (blocks,) = sizes[0], sizes[1] * sizes[2], spec.blocks
    with prim_func() as builder:
        buffers = declare_arguments(shapes)
        with T.sblock("root"), T.serial(T.int64(0), blocks) as loop, T.sblock("pack"):
            (block,) = axes("block", [blocks], [loop])
            T.reads(whole(buffers["x"]))
            T.writes(whole(buffers["y"]))
            T.sblock_attr({"template": NAME})
            x, y = flat(buffers["x"]), flat(buffers["y"])
            lanes = T.serial(T.int64(0), T.int64(LANES))
            with T.serial(T.int64(0), positions) as position, lanes as lane:
                channel = block * LANES + lane
                value = tirx.if_then_else(
                    channel < channels,
                    x[channel * positions + position],
                    tirx.const(0, "float32"),
                )
                T.buffer_store(y, value, [(block * positions + position) * LANES + lane])
    return builder.get()


PACK_OPEN = ScheduleTemplate(
    name=NAME,
    kind="open_pack",
    refuses=lambda spec, target: refuses_cpu(target),
    layouts=lambda spec, wanted: Layouts(inputs=(ROW,), output=ROW),
    kernel=kernel,
    default=share_outermost,
    space=share_outermost,
)
