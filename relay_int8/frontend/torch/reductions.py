"""PyTorch operators along axes: sums, extremes, moments, softmax, differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tvm import relax

from relay_int8.frontend.torch.arithmetic import Binary, binary
from relay_int8.frontend.torch.cumulative import counting
from relay_int8.frontend.torch.logic import truth
from relay_int8.frontend.torch.promotion import as_type, promoted
from relay_int8.frontend.torch.step import Converter, Result, TorchStep, axis_of
from relay_int8.frontend.torch.vector_norms import vector_norm
from relay_int8.graph.dataflow import dtype, shape


def _along(op: Callable[[relax.Expr, int], relax.Expr]) -> Converter:
    def _convert(step: TorchStep) -> Result:
        return op(step.x, step.axis("dim"))

    return _convert


def _reduce(op: Callable[..., relax.Expr]) -> Converter:
    """Reduce along axes, all of them where none is named."""

    def _convert(step: TorchStep) -> Result:
        named = step.integers("dim", [])
        axes = [axis_of(axis, step.rank) for axis in named] or list(range(step.rank))
        return op(step.x, axes, keepdims=step.flag("keepdim", False))

    return _convert


def _extreme(
    reduce: Callable[..., relax.Expr], pick: Binary, index_of: Callable[..., Any]
) -> Converter:
    """Return the extreme of all elements, along an axis with its indices, or of two tensors."""

    def _convert(step: TorchStep) -> Result:
        if "other" in step.arguments:
            return binary(pick)(step)
        if step.arguments.get("dim") is None:
            return reduce(step.x, list(range(step.rank)))
        axis, kept = step.axis("dim"), step.flag("keepdim", False)
        indices = step.emit("places", index_of(step.x, axis, keepdims=kept))
        return [reduce(step.x, [axis], keepdims=kept), indices]

    return _convert


def _variance(root: bool) -> Converter:
    """Mean square of what is apart from the mean, by the count less ``correction``."""

    def _convert(step: TorchStep) -> Result:
        axes = [axis_of(axis, step.rank) for axis in step.integers("dim", [])]
        axes = axes or list(range(step.rank))
        count = math.prod(shape(step.x)[axis] for axis in axes)
        left = count - (step.real("correction", 1.0) if step.flag("unbiased", True) else 0.0)
        if left <= 0:
            raise ValueError(f"a variance of {count} elements")
        kept = step.flag("keepdim", False)
        variance = step.emit("variance", relax.op.variance(step.x, axes, keepdims=kept))
        variance = relax.op.multiply(variance, step.number(count / left))
        return relax.op.sqrt(step.emit("corrected", variance)) if root else variance

    return _convert


def _with_mean(root: bool) -> Converter:
    def _convert(step: TorchStep) -> Result:
        first = step.emit("deviation", _variance(root)(step))
        return [first, _reduce(relax.op.mean)(step)]

    return _convert


def _index_of(find: Callable[..., relax.Expr]) -> Converter:
    """Return the index of an extreme along an axis, or in all elements."""

    def _convert(step: TorchStep) -> Result:
        if step.arguments.get("dim") is not None:
            return find(step.x, step.axis("dim"), keepdims=step.flag("keepdim", False))
        flat = step.emit("flat", relax.op.reshape(step.x, (math.prod(shape(step.x)),)))
        index = find(flat, 0, keepdims=False)
        if not step.flag("keepdim", False):
            return index
        return relax.op.reshape(step.emit("index", index), (1,) * step.rank)

    return _convert


def _log_sum_exp(step: TorchStep) -> Result:
    """``log(sum(exp(x)))``, the largest taken out of the sum."""
    axes = [axis_of(axis, step.rank) for axis in step.integers("dim")]
    top = step.emit("top", relax.op.max(step.x, axes, keepdims=True))
    apart = step.emit("apart", relax.op.subtract(step.x, top))
    grown = step.emit("exp", relax.op.exp(apart))
    total = step.emit("total", relax.op.sum(grown, axes, keepdims=True))
    whole = relax.op.add(step.emit("log", relax.op.log(total)), top)
    if step.flag("keepdim", False):
        return whole
    return relax.op.squeeze(step.emit("whole", whole), axes)


def _cosine(step: TorchStep) -> Result:
    """Return the product of two tensors along an axis, each divided by its length first."""
    axis, given = step.integer("dim", 1), [step.tensor("x1"), step.tensor("x2")]
    least = relax.const(step.real("eps", 1e-8), dtype(given[0]))
    axis = axis_of(axis, max(len(shape(x)) for x in given))
    parts = []
    for x in given:
        squares = step.emit("squares", relax.op.square(x))
        total = step.emit("total", relax.op.sum(squares, [axis], keepdims=True))
        length = step.emit("length", relax.op.sqrt(total))
        bounded = step.emit("bounded", relax.op.maximum(length, least))
        parts.append(step.emit("direction", relax.op.divide(x, bounded)))
    return relax.op.sum(step.emit("products", relax.op.multiply(*parts)), [axis])


def _vector_norm(step: TorchStep) -> Result:
    """Return the norm along axes, all of them where none is named."""
    order = step.real("p" if "p" in step.arguments else "ord", 2.0)
    axes = [axis_of(axis, step.rank) for axis in step.integers("dim", [])]
    return vector_norm(
        step, step.x, order, axes or list(range(step.rank)), step.flag("keepdim", False)
    )


def _extremes(step: TorchStep) -> Result:
    """Return the least and the largest, along an axis or of all elements."""
    axes = [step.axis("dim")] if step.arguments.get("dim") is not None else list(range(step.rank))
    kept = step.flag("keepdim", False)
    least = step.emit("least", relax.op.min(step.x, axes, keepdims=kept))
    return [least, relax.op.max(step.x, axes, keepdims=kept)]


def _count(step: TorchStep) -> Result:
    """Return how many elements are not zero."""
    truths = as_type(step, truth(step, step.x), "int64")
    return _reduce(relax.op.sum)(replace(step, arguments={**step.arguments, "self": truths}))


def _loss(size: Callable[[relax.Expr], relax.Expr]) -> Converter:
    """Return sizes of differences: their mean, their sum, or each (reduction 1, 2, 0)."""

    def _convert(step: TorchStep) -> Result:
        apart = step.emit("apart", relax.op.subtract(*promoted(step, "self", "target")))
        reduction, axes = step.integer("reduction", 1), list(range(len(shape(apart))))
        if reduction not in (0, 1, 2):
            raise ValueError(f"its reduction is {reduction}")
        if reduction == 0:
            return size(apart)
        reduce = relax.op.mean if reduction == 1 else relax.op.sum
        return reduce(step.emit("size", size(apart)), axes)

    return _convert


def _distance(step: TorchStep) -> Result:
    """Return the norm, along the last axis, of the difference of two tensors and ``eps``."""
    a, b = step.tensor("x1"), step.tensor("x2")
    apart = step.emit("apart", relax.op.subtract(a, b))
    moved = step.emit("moved", relax.op.add(apart, relax.const(step.real("eps", 1e-6), dtype(a))))
    given = {"self": moved, "p": step.real("p", 2.0), "dim": [-1]}
    return _vector_norm(replace(step, arguments={**given, "keepdim": step.flag("keepdim", False)}))


def _total(step: TorchStep) -> Result:
    """Sum along axes; integers and truth values are counted in int64."""
    return _reduce(relax.op.sum)(counting(step))


def _difference(step: TorchStep) -> Result:
    """Subtract every element along an axis from the next, ``n`` times; of truth values: differ."""
    axis, times = step.axis("dim", -1), step.integer("n", 1)
    parts = [step.optional_tensor("prepend"), step.x, step.optional_tensor("append")]
    given = [as_type(step, part, dtype(step.x)) for part in parts if part is not None]
    x = given[0] if len(given) == 1 else step.emit("joined", relax.op.concat(given, axis))
    if not 1 <= times < shape(x)[axis]:
        raise ValueError(f"it takes {times} differences of {shape(x)[axis]}")
    combine = relax.op.not_equal if dtype(x) == "bool" else relax.op.subtract
    for _ in range(times):
        size = shape(x)[axis]
        ends = [relax.op.strided_slice(x, [axis], [i], [size - 1 + i]) for i in (1, 0)]
        x = step.emit("difference", combine(*(step.emit("end", end) for end in ends)))
    return x


REDUCTIONS: dict[str, Converter] = {
    "_log_softmax": _along(relax.op.nn.log_softmax),
    "_softmax": _along(relax.op.nn.softmax),
    "amax": _reduce(relax.op.max),
    "amin": _reduce(relax.op.min),
    "argmax": _index_of(relax.op.argmax),
    "aminmax": _extremes,
    "argmin": _index_of(relax.op.argmin),
    "count_nonzero": _count,
    "cosine_similarity": _cosine,
    "diff": _difference,
    "l1_loss": _loss(relax.op.abs),
    "linalg_vector_norm": _vector_norm,
    "log_softmax": _along(relax.op.nn.log_softmax),
    "logsumexp": _log_sum_exp,
    "max": _extreme(relax.op.max, relax.op.maximum, relax.op.argmax),
    "mean": _reduce(relax.op.mean),
    "min": _extreme(relax.op.min, relax.op.minimum, relax.op.argmin),
    "mse_loss": _loss(relax.op.square),
    "norm": _vector_norm,
    "pairwise_distance": _distance,
    "prod": _reduce(relax.op.prod),
    "softmax": _along(relax.op.nn.softmax),
    "std": _variance(root=True),
    "std_mean": _with_mean(root=True),
    "sum": _total,
    "var": _variance(root=False),
    "var_mean": _with_mean(root=False),
}
