"""Read a model of which only weights are integers as the float model that it is.

    Before:  w = dequantize(int8 constant, s, z, axis);  y = conv2d(x, w)       x is float32
    After:   y = conv2d(x, float constant)

A model that quantizes an activation anywhere keeps its pairs: its scales are those to compute with.

Place:  end of the import.
Exact:  the products of steps and scales in float64, rounded to float32 once.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import calls, constant, dtype, operator
from relay_int8.graph.rewriting import Scope, rewrite_main


@tvm.transform.module_pass(opt_level=0, name="RestoreWeights")
class RestoreWeights:
    """Read a model of which only weights are integers as the float model that it is."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with such weights in float; ``mod`` itself is left alone."""
        pairs = [v for _, v in calls(mod["main"]) if operator(v) in ("quantize", "dequantize")]
        weights_alone = all(
            operator(value) == "dequantize" and constant(value.args[0]) is not None
            for value in pairs
        )
        return rewrite_main(mod.clone(), _as_real) if pairs and weights_alone else mod


def _as_real(_: Scope, value: relax.Expr) -> relax.Expr | None:
    if operator(value) != "dequantize":
        return None
    arrays = [constant(argument) for argument in value.args]
    q, s, z = (None if array is None else array.astype(np.float64) for array in arrays)
    if q is None or s is None or z is None:
        return None
    dims = [1] * q.ndim
    if s.size > 1:
        dims[int(value.attrs.axis) % q.ndim] = -1
    real = (q - (z.reshape(dims) if z.size > 1 else z.reshape(()))) * s.reshape(dims or ())
    return relax.const(np.ascontiguousarray(real, np.float32), dtype(value))
