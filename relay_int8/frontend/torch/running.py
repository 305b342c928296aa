"""PyTorch operators that go on along an axis: extremes and sums of exponentials so far.

Before:  y = cummax(x)
After:   y = max(x, x moved by 1); y = max(y, y moved by 2); y = max(y, y moved by 4); ...
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import shape

Parts = list[relax.Expr]
Combine = Callable[[TorchStep, Parts, Parts], Parts]
"""What an element and one in front of it make, of as many tensors as each is."""


def _so_far(step: TorchStep, parts: Parts, axis: int, combine: Combine) -> Parts:
    """Combine each element along an axis with all in front of it, in twice as long steps."""
    size, by = shape(parts[0])[axis], 1

    def _slices(begin: int, end: int) -> Parts:
        return [
            step.emit("part", relax.op.strided_slice(part, [axis], [begin], [end]))
            for part in parts
        ]

    while by < size:
        rest = combine(step, _slices(by, size), _slices(0, size - by))
        both = zip(_slices(0, by), rest, strict=True)
        parts = [step.emit("joined", relax.op.concat(list(pair), axis)) for pair in both]
        by *= 2
    return parts


def _extreme(is_kept: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Converter:
    """Return the extremes so far and where they are, of equal ones the last."""

    def _combined(step: TorchStep, now: Parts, before: Parts) -> Parts:
        kept = step.emit("kept", is_kept(now[0], before[0]))
        return [
            step.emit("extreme", relax.op.where(kept, a, b))
            for a, b in zip(now, before, strict=True)
        ]

    def _convert(step: TorchStep) -> Result:
        axis, dims = step.axis("dim"), shape(step.x)
        along = [-1 if i == axis else 1 for i in range(len(dims))]
        places = np.broadcast_to(np.arange(dims[axis]).reshape(along), dims)
        return _so_far(step, [step.x, relax.const(np.array(places, "int64"))], axis, _combined)

    return _convert


def _log_sum_exp(step: TorchStep) -> Result:
    """``log(cumsum(exp(x)))``, of each pair the larger one taken out."""

    def _combined(step: TorchStep, now: Parts, before: Parts) -> Parts:
        pair = now[0], before[0]
        top = step.emit("top", relax.op.maximum(*pair))
        apart = step.emit("apart", relax.op.abs(step.emit("gap", relax.op.subtract(*pair))))
        small = step.emit("exp", relax.op.exp(step.emit("minus", relax.op.negative(apart))))
        grown = step.emit("grown", relax.op.add(small, step.number(1.0)))
        return [step.emit("sum", relax.op.add(top, step.emit("log", relax.op.log(grown))))]

    return _so_far(step, [step.x], step.axis("dim"), _combined)[0]


RUNNING: dict[str, Converter] = {
    "cummax": _extreme(relax.op.greater_equal),
    "cummin": _extreme(relax.op.less_equal),
    "logcumsumexp": _log_sum_exp,
}
