"""Any unary function of an integer tensor, by its 256 values; of pixels, by those of a channel.

    x, y  : logical, any shape, in one layout; by channel in any two
    table : (256,) of y's type, indexed by x, or x + 128 where x is int8; by channel (c * 256,)

Exact:  a load. Loops: see ``elementwise``; by channel the flat run ends at the channel axis.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies.body import Body
from schedules.bodies.elementwise import any_layouts, elementwise_kernel, first_layout
from schedules.bodies.expressions import OutputElement, channel, common_suffix, run_within_channels
from schedules.spec import Table
from schedules.template import Layouts

ENTRIES = 256


def layouts(spec: Table, wanted: Layouts) -> Layouts:
    """Return x's layout for y too; by channel, whatever is wanted."""
    return any_layouts(spec, wanted) if spec.by_channel else first_layout(spec, wanted)


def kernel(spec: Table, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    run, entries = common_suffix(spec, layouts), ENTRIES
    if spec.by_channel:
        run, entries = run_within_channels(spec, layouts, run), ENTRIES * int(spec.dims[1])
    return elementwise_kernel(spec, layouts, _lookup, run, table=entries)


def _lookup(point: OutputElement) -> Expr:
    x = point.here("x").astype("int32")
    entry = x + 128 if point.spec.dtype("x") == "int8" else x
    return point.param(
        "table", channel(point) * ENTRIES + entry if point.spec.by_channel else entry
    )


TABLE = Body(kind="table", layouts=layouts, kernel=kernel)
