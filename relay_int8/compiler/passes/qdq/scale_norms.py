"""Multiply the channels of norms by factors, and divide the weights that read them.

    Before:  n = layer_norm(x, gamma, beta);  y = matmul(n, w);  z = add(n, v)
    After:   n:unscaled = layer_norm(x, gamma, beta)
             n = layer_norm(x, gamma * f, beta * f);  y = matmul(n, w / f);  z = add(n:unscaled, v)

Place:  after calibration, which finds the factors, before CorrectBias.
Exact:  the float network computes the same up to rounding. A norm that dense layers alone read is
        not written twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import IRModule, relax

from relay_int8.graph import dataflow
from relay_int8.graph.norm_readers import NormReaders, find_norm_readers

Array = npt.NDArray[Any]
Factors = Mapping[str, npt.NDArray[np.float32]]


@tvm.transform.module_pass(opt_level=0, name="ScaleNorms")
class ScaleNorms:
    """Multiply the channels of norms by factors.

    Parameters
    ----------
    factors
        Norm -> float32 (channels,), of norms that :func:`find_norm_readers` finds.
    """

    def __init__(self, factors: Factors) -> None:
        self._factors = factors

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the scaled module; ``mod`` itself is left alone."""
        func = mod["main"]
        norms = {
            each.norm.output: each
            for each in find_norm_readers(func)
            if each.norm.name in self._factors
        }
        heads = {reader.members[0]: each for each in norms.values() for reader in each.readers}
        writer = dataflow.FunctionWriter(func=func)
        done: dict[relax.Var, relax.Expr] = {}
        scaled: dict[relax.Var, relax.Expr] = {}
        for var, value in dataflow.calls(func):
            call = dataflow.substitute(value, done)
            if var in norms:
                if norms[var].is_shared:
                    done[var] = writer.emit(f"{var.name}:unscaled", call)
                scaled[var] = writer.emit(var.name, self._multiplied(call, norms[var]))
                done.setdefault(var, scaled[var])
            elif var in heads:
                norm = heads[var].norm
                call = _with_arguments(call, scaled[norm.output], self._divided(call, norm.name))
                done[var] = writer.emit(var.name, call)
            else:
                done[var] = writer.emit(var.name, call)
        outputs = [done.get(var, var) for var in dataflow.results(func)]
        return writer.finish(func.params, outputs, dataflow.attributes(func))

    def _multiplied(self, call: relax.Call, each: NormReaders) -> relax.Call:
        """Return the norm with gamma and beta times the factors."""
        constants = (each.gamma, each.beta)[: len(call.args) - 1]
        factors = self._factors[each.norm.name]
        return _with_arguments(call, call.args[0], *(values * factors for values in constants))

    def _divided(self, call: relax.Call, name: str) -> Array:
        """Return the weights (k, n) of a dense layer, divided by the factors of what it reads."""
        weights = dataflow.constant(call.args[1])
        assert weights is not None
        divided: Array = weights / self._factors[name][:, None]
        return divided


def _with_arguments(call: relax.Call, x: relax.Expr, *constants: Array) -> relax.Call:
    arguments = [x, *(relax.const(values.astype(np.float32)) for values in constants)]
    return dataflow.with_arguments(call, arguments)
