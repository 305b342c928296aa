"""ONNX's activations as plain operators: bounds may be missing or computed. Dropout too."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from relay_int8.graph.dataflow import constant, dtype, shape


def clip(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Clip; a missing bound, or a constant one that is NaN, is no bound."""
    x, low, high = (*inputs, None, None)[:3]
    bounds = {"min": low, "max": high}
    numbers: dict[str, float | None] = {}
    for name, bound in bounds.items():
        value = attributes.get(name) if bound is None else constant(bound)
        is_number = value is not None and np.isfinite(value).all()
        numbers[name] = float(np.asarray(value, np.float32).reshape(())) if is_number else None
    if None not in numbers.values():
        return relax.op.clip(x, *map(relax.prim_value, numbers.values()))
    for name, combine in (("min", relax.op.maximum), ("max", relax.op.minimum)):
        number, bound = numbers[name], bounds[name]
        if number is not None:
            x = bb.emit(combine(x, relax.const(number, dtype(x))))
        elif bound is not None and constant(bound) is None:
            x = bb.emit(combine(x, bound))
    return x


def celu(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """``max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1)``."""
    x, alpha = inputs[0], float(attributes.get("alpha", 1.0))
    zero, one, a = (relax.const(value, x.ty.dtype.dtype) for value in (0.0, 1.0, alpha))
    share = bb.emit(relax.op.divide(bb.emit(relax.op.minimum(x, zero)), a))
    growth = bb.emit(relax.op.subtract(bb.emit(relax.op.exp(share)), one))
    return relax.op.add(bb.emit(relax.op.maximum(x, zero)), bb.emit(relax.op.multiply(growth, a)))


def thresholded_relu(
    bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]
) -> relax.Expr:
    """``x`` where it is more than alpha, else 0."""
    x, kind = inputs[0], inputs[0].ty.dtype.dtype
    alpha, zero = (relax.const(v, kind) for v in (float(attributes.get("alpha", 1.0)), 0.0))
    return relax.op.where(bb.emit(relax.op.greater(x, alpha)), x, zero)


def dropout(_: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Hand on the input; the mask, where a node has one, is true everywhere."""
    x, ratio, training = (*inputs, None, None)[:3]
    is_training = False if training is None else constant(training)
    drops = True if ratio is None else constant(ratio)
    if is_training is None:
        raise NotImplementedError(
            "inputs of the network say whether it drops elements by chance (training_mode); give "
            'them values, as by ImportOptions(values={"deterministic": 1})'
        )
    if np.any(is_training) and (drops is None or np.any(drops)):
        raise NotImplementedError(
            "it drops elements by chance (training_mode): export the model in evaluation mode"
        )
    if attributes["tvm_custom"]["num_outputs"] == 1:
        return x
    return relax.Tuple([x, relax.const(np.ones(shape(x), "bool"))])
