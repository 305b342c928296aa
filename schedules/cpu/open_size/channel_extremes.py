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
from tvm.script import tirx as T

from schedules.bodies.buffers import whole
from schedules.cpu.elementwise import refuses_kind
from schedules.cpu.open_size.channel_statistics import general, layouts, memory
from schedules.cpu.outermost import share_outermost
from schedules.spec import ChannelExtremes
from schedules.template import Layouts, ScheduleTemplate


def kernel(spec: ChannelExtremes, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel of a spec that :func:`general` gave."""
    shape, blocks, positions, lanes, channels = memory(spec)

    # Loops begin at zero: TVM's CanonicalizeLoop loses other beginnings.
    @T.prim_func(private=True, s_tir=True)
    def channel_extremes(
        x: T.Buffer(shape, "float32"), y: T.Buffer((T.int64(2), channels), "float32")
    ) -> None:
        """Compare the positions of each channel."""
        T.func_attr({"tirx.noalias": True})
        for block in range(blocks):
            with T.sblock("compare"):
                b = T.axis.spatial(blocks, block)
                T.reads(whole(x))
                T.writes(whole(y))
                T.sblock_attr({"template": "channel_extremes_cpu"})
                flat = T.decl_buffer((blocks * positions * lanes,), "float32", data=x.data)
                least = T.sblock_alloc_buffer((lanes,), "float32")
                most = T.sblock_alloc_buffer((lanes,), "float32")
                for lane in T.vectorized(lanes):
                    least[lane] = flat[b * positions * lanes + lane]
                    most[lane] = flat[b * positions * lanes + lane]
                for position in range(positions):
                    for lane in T.vectorized(lanes):
                        least[lane] = T.min(
                            least[lane], flat[(b * positions + position) * lanes + lane]
                        )
                        most[lane] = T.max(
                            most[lane], flat[(b * positions + position) * lanes + lane]
                        )
                for lane in range(lanes):
                    if b * lanes + lane < channels:
                        y[T.int64(0), b * lanes + lane] = least[lane]
                        y[T.int64(1), b * lanes + lane] = most[lane]

    return channel_extremes


CHANNEL_EXTREMES_CPU = ScheduleTemplate(
    name="channel_extremes_cpu",
    kind="channel_extremes",
    refuses=refuses_kind,
    layouts=layouts,
    kernel=kernel,
    default=share_outermost,
    space=share_outermost,
    general=general,
)
