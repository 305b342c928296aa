"""Move an integer tensor to another scale; ReLU, clip, LeakyReLU and PReLU of any tensor.

    x, y : logical (n, c, ...) in one layout
    m float32 (1,), m_neg or alpha float32 (c,), z int32 (2,), clamp float32 (2,)

Exact:  one multiply per element, chosen by the sign of ``x - z_x``. Loops: see ``elementwise``;
        with a slope per channel the flat run ends at the channel axis.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.cpu.elementwise import default, elementwise_kernel, first_layout, refuses_kind, space
from schedules.expressions import Point, blend, centred, clamp, common_suffix, requantize
from schedules.layout import ROW
from schedules.spec import Rescale
from schedules.template import Layouts, ScheduleTemplate


def kernel(spec: Rescale, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    value = _float if spec.x == "float32" else _integer
    run = common_suffix(spec, layouts)
    if spec.leaky:
        # Over the axes after the channels the slope is constant; over blocked channels contiguous.
        after = len(spec.dims) - 2 if layouts.output == ROW else 1
        run = min(run, max(after, 1))
    slopes = int(spec.dims[1]) if spec.leaky else 0
    return elementwise_kernel(
        spec, layouts, RESCALE_CPU.name, value, run, z=2, m_neg=slopes, alpha=slopes
    )


def _integer(point: Point) -> Expr:
    acc = centred(point.here("x"), point.param("z", 0))
    m = point.param("m")
    if "m_neg" in point.params:
        m = blend(acc < 0, _slope(point, "m_neg"), m)
    return requantize(acc, m, point.param("z", 1), point.bounds, point.spec.dtype("y"))


def _float(point: Point) -> Expr:
    x = point.here("x")
    if "alpha" in point.params:
        x = blend(x < tirx.const(0, "float32"), x * _slope(point, "alpha"), x)
    return clamp(x, point.bounds)


def _slope(point: Point, name: str) -> Expr:
    """Read the channel's slope; lanes past the last channel read the last one."""
    channel, channels = point.logical[1], int(point.spec.shape("y")[1])
    block = point.layouts.output.block
    return point.param(
        name, tirx.min(channel, channels - 1) if block and channels % block else channel
    )


RESCALE_CPU = ScheduleTemplate(
    name="rescale_cpu",
    kind="rescale",
    refuses=refuses_kind,
    layouts=first_layout,
    kernel=kernel,
    default=default,
    space=space,
)
