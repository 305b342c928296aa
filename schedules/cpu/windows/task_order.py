"""Order of a window kernel's tasks: all channels of some rows, then those of the next rows.

A thread is given neighbouring tasks. The convolutions around a depthwise layer have rows outermost,
so that with rows outermost here too, a thread reads what it has written itself: from its own core's
cache, not from another's.

    Before:  p:n*c*h_o      half of the tasks: half of the channels
    After:   p:n*h_o*c      half of the tasks: half of the rows

Done to the scheduled kernel and not by its schedule, so that tuning records hold: their points are
the same loops in another order.

Exact:  bit-identical; tasks write different elements.
"""

from __future__ import annotations

import tvm_ffi
from tvm import tirx


def rows_first(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a scheduled window kernel with rows outside of channels in its parallel loop."""
    batch, channels = func.params[-1].ty.shape[:2]
    if not isinstance(batch, tirx.IntImm):
        return func

    def _reordered(loop: tirx.For) -> tirx.For:
        if loop.kind != tirx.ForKind.PARALLEL:
            return loop
        blocks = int(channels)
        rows = int(loop.extent) // (int(batch) * blocks)
        task = tirx.Var(loop.loop_var.name, loop.loop_var.ty.dtype)
        image = tirx.floordiv(task, rows * blocks)
        row = tirx.floormod(tirx.floordiv(task, blocks), rows)
        index = (image * blocks + tirx.floormod(task, blocks)) * rows + row
        body = tvm_ffi.structural_map(
            loop.body, (tirx.Var, lambda var: index if var.same_as(loop.loop_var) else var)
        )
        return tirx.For(
            task, loop.min, loop.extent, loop.kind, body, loop.thread_binding, loop.annotations
        )

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, _reordered)))
