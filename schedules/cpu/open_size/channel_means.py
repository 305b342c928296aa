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
from tvm.script import tirx as T

from schedules.bodies.buffers import whole
from schedules.cpu.elementwise import refuses_kind
from schedules.cpu.open_size.channel_statistics import general, layouts, memory
from schedules.cpu.outermost import share_outermost
from schedules.spec import ChannelMeans
from schedules.template import Layouts, ScheduleTemplate


def kernel(spec: ChannelMeans, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel of a spec that :func:`general` gave."""
    shape, blocks, positions, lanes, channels = memory(spec)

    # Loops begin at zero: TVM's CanonicalizeLoop loses other beginnings.
    @T.prim_func(private=True, s_tir=True)
    def channel_means(
        x: T.Buffer(shape, "float32"),
        m: T.Buffer((T.int64(1),), "float32"),
        y: T.Buffer((channels,), "float32"),
    ) -> None:
        """Sum the positions of each channel, and scale the sums."""
        T.func_attr({"tirx.noalias": True})
        for block in range(blocks):
            with T.sblock("sum"):
                b = T.axis.spatial(blocks, block)
                T.reads(whole(x), m[0])
                T.writes(whole(y))
                T.sblock_attr({"template": "channel_means_cpu"})
                flat = T.decl_buffer((blocks * positions * lanes,), "float32", data=x.data)
                sums = T.sblock_alloc_buffer((lanes,), "float32")
                for lane in T.vectorized(lanes):
                    sums[lane] = T.float32(0)
                for position in range(positions):
                    for lane in T.vectorized(lanes):
                        sums[lane] = sums[lane] + flat[(b * positions + position) * lanes + lane]
                for lane in range(lanes):
                    if b * lanes + lane < channels:
                        y[b * lanes + lane] = sums[lane] * m[0]

    return channel_means


CHANNEL_MEANS_CPU = ScheduleTemplate(
    name="channel_means_cpu",
    kind="channel_means",
    refuses=refuses_kind,
    layouts=layouts,
    kernel=kernel,
    default=share_outermost,
    space=share_outermost,
    general=general,
)
