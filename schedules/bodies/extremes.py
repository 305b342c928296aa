"""Maxima and minima of a reduction: of floats they begin with an infinity.

TVM's own begin with the last finite number, which is then what infinities alone give, as rows of an
attention's mask.
"""

from __future__ import annotations

import math
from typing import Any

from tvm import te, tirx


def _begin(dtype: str, infinity: float) -> tirx.Expr:
    if dtype.startswith("float"):
        return tirx.const(infinity, dtype)
    return tirx.min_value(dtype) if infinity < 0 else tirx.max_value(dtype)


maximum: Any = te.comm_reducer(
    lambda best, value: tirx.max(best, value), lambda dtype: _begin(dtype, -math.inf), "maximum"
)
minimum: Any = te.comm_reducer(
    lambda best, value: tirx.min(best, value), lambda dtype: _begin(dtype, math.inf), "minimum"
)
