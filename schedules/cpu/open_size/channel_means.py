"""Means of the channels of a float32 image, for calibration, in any layout.

    x : float32 (1, c, h, w), in blocks of channels or row major, where a block is a channel
    m : float32 (1,), one over the number of positions
    y : float32 (c,)

Loops after scheduling (p parallel, v vectorized):

    p:block   position v:lane     one sum for each lane, in registers
    block     lane                scale and store, lanes past the last channel left out

Exact:  bit-identical to the reference: each sum ascends over the positions.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx.script import builder as T

from schedules.bodies.buffers import allocate, declare_arguments, flat, whole
from schedules.bodies.prim_func import axes, prim_func
from schedules.cpu.elementwise import refuses_kind
from schedules.cpu.open_size.channel_statistics import general, layouts, memory
from schedules.cpu.outermost import share_outermost
from schedules.spec import ChannelMeans
from schedules.template import Layouts, ScheduleTemplate

NAME = "channel_means_cpu"


def kernel(spec: ChannelMeans, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel of a spec that :func:`general` gave."""
    shape, blocks, positions, lanes, channels = memory(spec)
    shapes = {"x": (shape, "float32"), "m": ((1,), "float32"), "y": ((channels,), "float32")}
    with prim_func() as builder:
        x, m, y = declare_arguments(shapes).values()
        # Loops begin at zero: TVM's CanonicalizeLoop loses other beginnings.
        with T.sblock("root"), T.serial(T.int64(0), blocks) as block, T.sblock("sum"):
            (b,) = axes("b", [blocks], [block])
            T.reads(whole(x), m[0])
            T.writes(whole(y))
            T.sblock_attr({"template": NAME})
            values = flat(x)
            sums = allocate("sums", (lanes,), "float32")
            with T.vectorized(T.int64(0), lanes) as lane:
                T.buffer_store(sums, T.float32(0), [lane])
            pixels, block_lanes = T.serial(T.int64(0), positions), T.vectorized(T.int64(0), lanes)
            with pixels as position, block_lanes as lane:
                value = values[(b * positions + position) * lanes + lane]
                T.buffer_store(sums, sums[lane] + value, [lane])
            with T.serial(T.int64(0), lanes) as lane, T.If(b * lanes + lane < channels), T.Then():
                T.buffer_store(y, sums[lane] * m[0], [b * lanes + lane])
    return builder.get()


CHANNEL_MEANS_CPU = ScheduleTemplate(
    name=NAME,
    kind="channel_means",
    refuses=refuses_kind,
    layouts=layouts,
    kernel=kernel,
    default=share_outermost,
    space=share_outermost,
    general=general,
)
