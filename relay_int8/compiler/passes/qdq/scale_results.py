"""Multiply tensors by a factor of each channel; those who read them take it back.

    Before:  y = silu(conv2d(x, w));  z = depthwise(y, v)
    After:   y:unscaled = silu(conv2d(x, w));  y = y:unscaled * f;  z = depthwise(y, v)

Place:  after calibration, which finds the factors; ReplaceWeights divides v.
Exact:  as floats are multiplied. The epilogue that computes the function multiplies by its step
        anyway.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import tvm
from tvm import IRModule, relax

from relay_int8.graph import dataflow


@tvm.transform.module_pass(opt_level=0, name="ScaleResults")
class ScaleResults:
    """Multiply tensors by factors.

    Parameters
    ----------
    factors
        Tensor -> float32, of one element a channel, shaped to be multiplied with it. No result of
        the network is among them.
    """

    def __init__(self, factors: Mapping[str, npt.NDArray[np.float32]]) -> None:
        self._factors = factors

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the scaled module; ``mod`` itself is left alone."""
        func = mod["main"]
        writer = dataflow.FunctionWriter(func=func)
        done: dict[relax.Var, relax.Expr] = {}
        for var, value in dataflow.calls(func):
            call, name = dataflow.substitute(value, done), str(var.name)
            if name in self._factors:
                unscaled = writer.emit(f"{name}:unscaled", call)
                call = relax.op.multiply(unscaled, relax.const(self._factors[name]))
            done[var] = writer.emit(name, call)
        outputs = [done.get(var, var) for var in dataflow.results(func)]
        return writer.finish(func.params, outputs, dataflow.attributes(func))
