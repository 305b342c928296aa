"""ONNX's arithmetic of any number of operands, two by two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax

from relay_int8.frontend.onnx.operators.converter import Converter


def pairwise(combine: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Converter:
    """Combine any number of operands two by two, from the left; constants are folded later."""

    def _convert(bb: relax.BlockBuilder, inputs: list[Any], _: dict[str, Any]) -> relax.Expr:
        total, *others = inputs
        for other in others:
            total = combine(bb.emit(total) if isinstance(total, relax.Call) else total, other)
        return total

    return _convert


def mean(bb: relax.BlockBuilder, inputs: list[Any], _: dict[str, Any]) -> relax.Expr:
    """Add the operands two by two, and divide by their number."""
    total = pairwise(relax.op.add)(bb, inputs, {})
    count = relax.const(1 / len(inputs), inputs[0].ty.dtype.dtype)
    return relax.op.multiply(bb.emit(total) if isinstance(total, relax.Call) else total, count)
