"""Move an integer tensor to another scale; ReLU, clip, LeakyReLU and PReLU of any tensor.

    x, y : logical (n, c, ...) in one layout
    m float32 (1,), m_neg or alpha float32 (c,), z int32 (2,), clamp float32 (2,); fixed-point:
    all int32, shift (1,), shift_neg (c,)

Exact:  one multiply per element, chosen by the sign of ``x - z_x``. Loops: see ``elementwise``;
        with a slope per channel the flat run ends at the channel axis.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies.body import Body
from schedules.bodies.elementwise import elementwise_kernel, first_layout
from schedules.bodies.expressions import (
    OutputElement,
    blend,
    centred,
    channel,
    clamp,
    common_suffix,
    requantize,
    run_within_channels,
)
from schedules.spec import Rescale
from schedules.template import Layouts


def kernel(spec: Rescale, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    value = _float if spec.x == "float32" else _integer
    run = common_suffix(spec, layouts)
    if spec.leaky:
        run = run_within_channels(spec, layouts, run)
    slopes = int(spec.dims[1]) if spec.leaky else 0
    per_channel = dict.fromkeys(("m_neg", "shift_neg", "alpha"), slopes)
    return elementwise_kernel(spec, layouts, value, run, z=2, **per_channel)


def _integer(point: OutputElement) -> Expr:
    spec = point.spec
    acc = centred(point.here("x"), point.param("z", 0))
    factors = [point.param(name) for name in spec.scaled_by("m")]
    if spec.leaky:
        slopes = [point.param(name, channel(point)) for name in spec.scaled_by("m_neg")]
        pairs = zip(slopes, factors, strict=True)
        factors = [blend(acc < 0, slope, factor) for slope, factor in pairs]
    return requantize(spec, acc, factors, point.param("z", 1), point.bounds)


def _float(point: OutputElement) -> Expr:
    x = point.here("x")
    if "alpha" in point.params:
        x = blend(x < tirx.const(0, "float32"), x * point.param("alpha", channel(point)), x)
    return clamp(x, point.bounds)


RESCALE = Body(kind="rescale", layouts=first_layout, kernel=kernel)
