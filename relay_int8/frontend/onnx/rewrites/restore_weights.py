"""Read a model of which only weights are integers as the float model that it is.

    Before:  w = dequantize(int8 constant, s, z, axis);  y = conv2d(x, w)       x is float32
    After:   y = conv2d(x, float constant)

    Before:  rows = take(int8 constant, indices);  y = dequantize(rows, s, z)
    After:   y = take(float constant, indices)

Rows of a table are dequantized behind the look-up in dynamically quantized models of text. They may
be reshaped or transposed on the way.

A model that quantizes an activation anywhere keeps its pairs: its scales are those to compute with.

Place:  end of the import.
Exact:  the products of steps and scales in float64, rounded to float32 once.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import calls, constant, operator
from relay_int8.graph.rewriting import Scope, rewrite_main

LOOKUP = "take"
MOVES = ("expand_dims", "permute_dims", "reshape", "squeeze", "strided_slice")
"""Operators that keep every element of their first operand as it is."""


@tvm.transform.module_pass(opt_level=0, name="RestoreWeights")
class RestoreWeights:
    """Read a model of which only weights are integers as the float model that it is."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with such weights in float; ``mod`` itself is left alone."""
        func = mod["main"]
        values = dict(calls(func))
        pairs = [v for v in values.values() if operator(v) in ("quantize", "dequantize")]
        weights_alone = all(
            operator(value) == "dequantize" and _is_weight(value, values) for value in pairs
        )
        return rewrite_main(mod.clone(), _as_real) if pairs and weights_alone else mod


def _is_weight(pair: relax.Call, values: Mapping[relax.Var, relax.Expr]) -> bool:
    """Whether what is dequantized is constant, or rows of a constant with one scale."""
    q, *parameters = pair.args
    if constant(q) is not None:
        return True
    while operator(value := values.get(q, q)) in MOVES:
        q = value.args[0]
    if operator(value) != LOOKUP or constant(value.args[0]) is None:
        return False
    arrays = [constant(parameter) for parameter in parameters]
    return all(array is not None and array.size == 1 for array in arrays)


def _as_real(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    if operator(value) != "dequantize":
        return None
    q, s, z = value.args
    moves = []
    while constant(q) is None:  # a look-up, and what moves its rows
        moves.append(scope.value(q))
        q = moves[-1].args[0]
    real = _reals(q, s, z, int(value.attrs.axis))
    if real is None:
        return None
    for move in reversed(moves):
        last = relax.Call(move.op, [real, *move.args[1:]], move.attrs)
        real = scope.emit("real", last)
    return real


def _reals(
    integers: relax.Expr, scale: relax.Expr, zero: relax.Expr, axis: int
) -> relax.Expr | None:
    """Return what a constant of integers stands for, or None if a parameter is computed."""
    arrays = [constant(argument) for argument in (integers, scale, zero)]
    q, s, z = (None if array is None else array.astype(np.float64) for array in arrays)
    if q is None or s is None or z is None:
        return None
    dims = [1] * q.ndim
    if s.size > 1:
        dims[axis % q.ndim] = -1
    real = (q - (z.reshape(dims) if z.size > 1 else z.reshape(()))) * s.reshape(dims or ())
    return relax.const(np.ascontiguousarray(real, np.float32))
