"""Reading scale, zero point and range off a quantize or dequantize call."""

from __future__ import annotations

import numpy as np

from tests.oracle.arithmetic import Params
from tests.oracle.graph import Node


def read_params(call: Node, dtype: str, qrange: tuple[int, int] | None = None) -> Params:
    """Return the parameters of ``call``, whose integers have ``dtype``; the range may be narrower."""
    _, s, z = call.args
    if s.value is None or z.value is None:
        raise NotImplementedError(f"{call.name}: scale and zero point must be constants")
    if s.value.dtype != np.float32 or not (np.isfinite(s.value) & (s.value > 0)).all():
        raise ValueError(f"{call.name}: scales must be positive, finite float32, not {s.value}")
    info = np.iinfo(dtype)
    qmin, qmax = qrange or (info.min, info.max)
    zeros = z.value.astype(np.int64)
    if not (info.min <= qmin <= zeros.min() and zeros.max() <= qmax <= info.max):
        raise ValueError(f"{call.name}: {qmin} <= {zeros} <= {qmax} must ascend within {dtype}")
    return Params(s.value, zeros, call.attrs["axis"], qmin, qmax, dtype)
