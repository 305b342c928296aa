"""PyTorch operators that accumulate along an axis: running sums, products and extremes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.arithmetic import log_of_sum
from relay_int8.frontend.torch.logic import Binary
from relay_int8.frontend.torch.promotion import as_type
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import dtype, shape


def counting(step: TorchStep) -> TorchStep:
    """Return the step with integers and truth values of its input in int64."""
    if dtype(step.x).startswith("float"):
        return step
    return replace(step, arguments={**step.arguments, "self": as_type(step, step.x, "int64")})


def _accumulated(op: Callable[[relax.Expr, int], relax.Expr]) -> Converter:
    def _convert(step: TorchStep) -> Result:
        counted = counting(step)
        return op(counted.x, counted.axis("dim"))

    return _convert


def _running(step: TorchStep, x: relax.Expr, axis: int, combine: Binary) -> relax.Expr:
    """Combine every element with all before it, over distances of 1, 2, 4, ..."""
    size, distance = shape(x)[axis], 1
    while distance < size:
        parts = [
            step.emit("part", relax.op.strided_slice(x, [axis], [begin], [end]))
            for begin, end in ((0, distance), (0, size - distance), (distance, size))
        ]
        combined = step.emit("combined", combine(parts[1], parts[2]))
        x = step.emit("running", relax.op.concat([parts[0], combined], axis))
        distance *= 2
    return x


def _running_extreme(pick: Binary) -> Converter:
    """Return the extreme of what is not behind each element, and the last index that has it."""

    def _convert(step: TorchStep) -> Result:
        axis = step.axis("dim")
        extreme = _running(step, step.x, axis, pick)
        view = [-1 if i == axis else 1 for i in range(step.rank)]
        indices = relax.const(np.arange(shape(step.x)[axis]).reshape(view), "int64")
        reached = step.emit("reached", relax.op.equal(step.x, extreme))
        own = step.emit("own", relax.op.where(reached, indices, relax.const(0, "int64")))
        return [extreme, _running(step, own, axis, relax.op.maximum)]

    return _convert


def _log_sum_exp(step: TorchStep) -> Result:
    def _combined(a: relax.Expr, b: relax.Expr) -> relax.Expr:
        return log_of_sum(step, a, b)

    return _running(step, step.x, step.axis("dim"), _combined)


CUMULATIVE: dict[str, Converter] = {
    "cummax": _running_extreme(relax.op.maximum),
    "cummin": _running_extreme(relax.op.minimum),
    "cumprod": _accumulated(relax.op.cumprod),
    "cumsum": _accumulated(relax.op.cumsum),
    "logcumsumexp": _log_sum_exp,
}
