"""The requantization mode of a QDQ module ("float" or fixed point), kept as an attribute of it.

"float": float32 multipliers, half to even. "gemmlowp", "tflite", "tpu-mlir": integers alone, the
rounding of that name (``numerics.fixed_point``). Part of the quantized model: other bits.
"""

from __future__ import annotations

from typing import cast

from tvm import IRModule, relax

from relay_int8.graph import dataflow
from relay_int8.graph.attributes import REQUANTIZE
from schedules.rounding import Requantize


def with_requantize(mod: IRModule, requantize: Requantize) -> IRModule:
    """Return a QDQ module whose integers are to be scaled so; ``mod`` itself is left alone."""
    if requantize == "float":
        return mod
    mod = mod.clone()
    mod["main"] = mod["main"].with_attr(REQUANTIZE, requantize)
    return mod


def requantize_of(func: relax.Function) -> Requantize:
    """Return by what the integers of a function are scaled."""
    return cast(Requantize, str(dataflow.attributes(func).get(REQUANTIZE, "float")))
