"""A small graph, quantized at its end: its integers, as the oracle computes them."""

import numpy as np
from tvm import relax

from tests.reference import run


def quantized(net, y, inputs, s, z=0, dtype="int8", **kwargs):
    """Quantize ``y`` (q = real / s + z) and return its integers."""
    y = y if isinstance(y, relax.Var) else net.emit("y", y)
    result = net.quantized(y, s, z, dtype, name="y", **kwargs)
    return run(net.module(result), net.feed(inputs))["y:q"]


def image(*rows, dtype=np.int8):
    return np.array(rows, dtype)[None, None]
