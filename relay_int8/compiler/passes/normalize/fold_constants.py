"""Replace operators whose operands are all constants by their results.

    Before:  b = reshape(bias, (1, 8, 1, 1));  y = add(x, b)
    After:   y = add(x, constant)

Place:  first, so that the other passes find weights where they look for them.
Exact:  float64 NumPy along a whole chain of constants, rounded to the result's type once. The
        int32 biases and the scalars of a quantized model become the reals they stand for; its
        weights stay as they are, quantize and dequantize included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.compiler.passes.normalize.constant_operators import computed
from relay_int8.graph.dataflow import constant, operator, shape
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main


@tvm.transform.module_pass(opt_level=0, name="FoldConstants")
class FoldConstants:
    """Replace operators of constants by their results."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with constant expressions computed; ``mod`` itself is left alone."""
        wide: dict[relax.Expr, np.ndarray] = {}

        def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
            result: np.ndarray | Declined | None
            if operator(value) == "shape_to_tensor":
                result = _shape_of(scope.value(value.args[0]))
            elif isinstance(value, relax.TupleGetItem):
                result = _item(scope.value(value.tuple_value), value.index, wide)
            else:
                result = _compute(value, wide)
            if not isinstance(result, np.ndarray):
                return result
            dtype = str(value.ty.dtype)
            folded = relax.const(np.asarray(result, dtype, order="C"), dtype)
            if result.dtype != dtype:
                wide[folded] = result
            return folded

        return rewrite_main(mod.clone(), _rewrite)


def _compute(value: relax.Expr, wide: dict[relax.Expr, np.ndarray]) -> np.ndarray | Declined | None:
    """Return the value of a call on constants in double precision; None of any other."""
    if not isinstance(value, relax.Call) or not isinstance(value.ty, relax.TensorType):
        return None
    operands = _operands(value, wide)
    return None if operands is None else computed(value, operands)


def _item(value: relax.Expr, index: int, wide: dict[relax.Expr, np.ndarray]) -> np.ndarray | None:
    """Return a result of several: of a batch norm of constants, as standardized weights have."""
    if operator(value) != "nn.batch_norm" or index != 0:
        return None
    operands = _operands(value, wide)
    if operands is None:
        return None
    x = operands[0].astype("float64")
    along = [-1 if axis == int(value.attrs.axis) % x.ndim else 1 for axis in range(x.ndim)]
    gamma, beta, mean, variance = (a.astype("float64").reshape(along) for a in operands[1:])
    y = (x - mean) / np.sqrt(variance + float(value.attrs.epsilon))
    y = y * gamma if value.attrs.scale else y
    return np.asarray(y + beta if value.attrs.center else y)


def _shape_of(value: relax.Expr) -> np.ndarray | None:
    """Return the shape of a constant, or None: that of a tensor follows the batch."""
    is_constant = operator(value) == "shape_of" and constant(value.args[0]) is not None
    return np.array(shape(value.args[0]), "int64") if is_constant else None


def _operands(value: relax.Call, wide: dict[relax.Expr, np.ndarray]) -> list[np.ndarray] | None:
    """Return the constants that a call reads, or None if it reads a tensor."""
    tensors: list[relax.Expr] = []
    # Bounds of a slice are tuples of numbers, those of a clip are numbers, and no tensors.
    arguments = value.args[:1] if operator(value) in ("strided_slice", "clip") else value.args
    for argument in arguments:
        fields: Sequence[Any] = argument.fields if isinstance(argument, relax.Tuple) else [argument]
        tensors.extend(field for field in fields if not isinstance(field, relax.ShapeExpr))
    if not tensors or not all(isinstance(tensor, tvm.ir.GenericConst) for tensor in tensors):
        return None
    return [wide[t] if t in wide else t.value.numpy() for t in tensors]
