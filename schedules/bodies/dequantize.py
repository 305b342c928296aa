"""Dequantize int8 or uint8 to float32, from any layout to any layout in one pass.

    x : int8 or uint8, logical any shape, any layout
    y : float32, any layout; lanes past the last channel are 0
    s float32 (1,), z int32 (1,)

Exact:  ``float32(x - z) * s``. Loops: see ``elementwise``.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies.body import Body
from schedules.bodies.elementwise import any_layouts, elementwise_kernel
from schedules.bodies.expressions import OutputElement, centred
from schedules.spec import Dequantize
from schedules.template import Layouts


def kernel(spec: Dequantize, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    return elementwise_kernel(spec, layouts, _dequantize)


def _dequantize(point: OutputElement) -> Expr:
    return centred(point.here("x"), point.param("z")).astype("float32") * point.param("s")


DEQUANTIZE = Body(kind="dequantize", layouts=any_layouts, kernel=kernel)
