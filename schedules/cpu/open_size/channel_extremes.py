"""Least and greatest values of the channels of a float32 image, for calibration, in any layout.

    x : float32 (1, c, h, w), in blocks of channels or row major, where a block is a channel
    y : float32 (2, c), least values and then greatest

Loops after scheduling (p parallel, v vectorized):

    p:block   position v:lane     one pair for each lane, in registers
    block     lane                store, lanes past the last channel left out

Exact:  bit-identical to the reference, but for the sign of a zero and for NaN.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx.script import builder as T

from schedules.bodies.buffers import allocate, declare_arguments, flat, whole
from schedules.bodies.prim_func import axes, prim_func
from schedules.cpu.elementwise import refuses_kind
from schedules.cpu.open_size.channel_statistics import general, layouts, memory
from schedules.cpu.outermost import share_outermost
from schedules.spec import ChannelExtremes
from schedules.template import Layouts, ScheduleTemplate

NAME = "channel_extremes_cpu"


def kernel(spec: ChannelExtremes, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel of a spec that :func:`general` gave."""
    shape, blocks, positions, lanes, channels = memory(spec)
    shapes = {"x": (shape, "float32"), "y": ((2, channels), "float32")}
    with prim_func() as builder:
        x, y = declare_arguments(shapes).values()
        # Loops begin at zero: TVM's CanonicalizeLoop loses other beginnings.
        with T.sblock("root"), T.serial(T.int64(0), blocks) as block, T.sblock("compare"):
            (b,) = axes("b", [blocks], [block])
            T.reads(whole(x))
            T.writes(whole(y))
            T.sblock_attr({"template": NAME})
            values = flat(x)
            least, most = (allocate(name, (lanes,), "float32") for name in ("least", "most"))
            with T.vectorized(T.int64(0), lanes) as lane:
                T.buffer_store(least, values[b * positions * lanes + lane], [lane])
                T.buffer_store(most, values[b * positions * lanes + lane], [lane])
            pixels, block_lanes = T.serial(T.int64(0), positions), T.vectorized(T.int64(0), lanes)
            with pixels as position, block_lanes as lane:
                value = values[(b * positions + position) * lanes + lane]
                T.buffer_store(least, tirx.min(least[lane], value), [lane])
                T.buffer_store(most, tirx.max(most[lane], value), [lane])
            with T.serial(T.int64(0), lanes) as lane, T.If(b * lanes + lane < channels), T.Then():
                T.buffer_store(y, least[lane], [T.int64(0), b * lanes + lane])
                T.buffer_store(y, most[lane], [T.int64(1), b * lanes + lane])
    return builder.get()


CHANNEL_EXTREMES_CPU = ScheduleTemplate(
    name=NAME,
    kind="channel_extremes",
    refuses=refuses_kind,
    layouts=layouts,
    kernel=kernel,
    default=share_outermost,
    space=share_outermost,
    general=general,
)
