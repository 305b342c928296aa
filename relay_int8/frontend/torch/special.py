"""Less common PyTorch operators, each composed of ones that Relax has."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.indexing import indices_from_front, taken
from relay_int8.frontend.torch.promotion import as_type, promoted
from relay_int8.frontend.torch.sorting import ordered
from relay_int8.frontend.torch.step import Converter, Result, TorchStep, axis_of
from relay_int8.frontend.torch.vector_norms import vector_norm
from relay_int8.graph.dataflow import constant, dtype, shape


def _erfc(step: TorchStep) -> Result:
    return relax.op.subtract(step.number(1.0), step.emit("erf", relax.op.erf(step.x)))


def _is_negative(step: TorchStep) -> Result:
    """Whether a number is below zero, or is the negative zero."""
    return _has_sign(step, step.x)


def _copied_sign(step: TorchStep) -> Result:
    x, other = promoted(step, "self", "other", least="float32")
    size = step.emit("size", relax.op.abs(x))
    is_negative = step.emit("is_negative", _has_sign(step, other))
    return relax.op.where(is_negative, step.emit("below", relax.op.negative(size)), size)


def _has_sign(step: TorchStep, x: relax.Expr) -> relax.Expr:
    """Whether the sign of numbers is set; a zero's is that of its reciprocal."""
    kind = dtype(x)
    below = relax.op.less(x, relax.const(np.zeros((), kind)))
    if not kind.startswith("float"):
        return below
    inverse = step.emit("inverse", relax.op.divide(relax.const(np.ones((), kind)), x))
    is_low = step.emit("is_low", relax.op.less(inverse, relax.const(np.zeros((), kind))))
    return relax.op.logical_or(step.emit("below", below), is_low)


def _hypotenuse(step: TorchStep) -> Result:
    squares = [
        step.emit(f"square{i}", relax.op.square(x))
        for i, x in enumerate(promoted(step, "self", "other", least="float32"))
    ]
    return relax.op.sqrt(step.emit("sum", relax.op.add(*squares)))


def _float_power(step: TorchStep) -> Result:
    return relax.op.power(*promoted(step, "self", "exponent", least="float32"))


def _trace(step: TorchStep) -> Result:
    """Sum the diagonal of a matrix."""
    count = min(shape(step.x))
    places = np.arange(count) * (shape(step.x)[1] + 1)
    flat = step.emit("flat", relax.op.reshape(step.x, (math.prod(shape(step.x)),)))
    diagonal = taken(step, flat, relax.const(places, "int64"), 0)
    return relax.op.sum(step.emit("diagonal", diagonal), [0])


def _take(step: TorchStep) -> Result:
    """Read elements by their places in the flattened tensor."""
    flat = step.emit("flat", relax.op.reshape(step.x, (math.prod(shape(step.x)),)))
    count = shape(flat)[0]
    return taken(step, flat, indices_from_front(step, step.tensor("index"), count), 0)


def _bucket(values: str, bounds: str) -> Converter:
    """Return for each value how many bounds lie below it, with ``right`` also those equal to it."""

    def _convert(step: TorchStep) -> Result:
        x, edges = step.tensor(values), step.tensor(bounds)
        if len(shape(edges)) != 1 or step.arguments.get("sorter") is not None:
            raise NotImplementedError(f"bounds {list(shape(edges))}, or an order of them")
        right = step.flag("right", False) or step.arguments.get("side") == "right"
        reached = (relax.op.greater_equal if right else relax.op.greater)(
            step.emit("each", relax.op.expand_dims(x, -1)), as_type(step, edges, dtype(x))
        )
        kind = "int32" if step.flag("out_int32", False) else "int64"
        return relax.op.sum(as_type(step, step.emit("reached", reached), kind), [-1])

    return _convert


def _cross(step: TorchStep) -> Result:
    """Return cross products along an axis of three."""
    a, b = promoted(step, "self", "other")
    axis = step.arguments.get("dim")
    if axis is None:
        axis = -1 if step.operator.endswith("linalg_cross") else shape(a).index(3)
    axis = axis_of(axis, len(shape(a)))
    if shape(a)[axis] != 3 or shape(b)[axis] != 3:
        raise ValueError(f"cross products along axis {axis} of {shape(a)} and {shape(b)}")

    def _turned(x: relax.Expr, by: int) -> relax.Expr:
        order = relax.const(np.roll(np.arange(3), -by), "int64")
        return step.emit("turned", relax.op.take(x, order, axis))

    left = step.emit("left", relax.op.multiply(_turned(a, 1), _turned(b, 2)))
    return relax.op.subtract(
        left, step.emit("right", relax.op.multiply(_turned(a, 2), _turned(b, 1)))
    )


def _kronecker(step: TorchStep) -> Result:
    """Return every product of an element of one tensor and one of another, in blocks."""
    a, b = promoted(step, "self", "other")
    rank = max(len(shape(a)), len(shape(b)))
    dims = [[1] * (rank - len(shape(x))) + list(shape(x)) for x in (a, b)]
    pairs = [
        [n for size in sizes for n in ((size, 1) if i == 0 else (1, size))]
        for i, sizes in enumerate(dims)
    ]
    views = [
        step.emit("view", relax.op.reshape(x, view)) for x, view in zip((a, b), pairs, strict=True)
    ]
    product = step.emit("product", relax.op.multiply(*views))
    return relax.op.reshape(product, [m * n for m, n in zip(*dims, strict=True)])


def _distance(step: TorchStep) -> Result:
    """Return the norm of a difference."""
    apart = step.emit("apart", relax.op.subtract(*promoted(step, "self", "other")))
    return vector_norm(step, apart, step.real("p", 2.0), list(range(len(shape(apart)))), False)


def _without_nan(mean: bool) -> Converter:
    """Sum, or average, what is a number."""

    def _convert(step: TorchStep) -> Result:
        axes = [axis_of(axis, step.rank) for axis in step.integers("dim", [])]
        axes, kept = axes or list(range(step.rank)), step.flag("keepdim", False)
        is_nan = step.emit("is_nan", relax.op.isnan(step.x))
        numbers = step.emit("numbers", relax.op.where(is_nan, step.number(0.0), step.x))
        total = relax.op.sum(numbers, axes, kept)
        if not mean:
            return total
        ones = step.emit("ones", relax.op.where(is_nan, step.number(0.0), step.number(1.0)))
        count = step.emit("count", relax.op.sum(ones, axes, kept))
        return relax.op.divide(step.emit("total", total), count)

    return _convert


def _in_order(rank_of: Callable[[TorchStep, int], int]) -> Converter:
    """Return the value of a rank along an axis, and its index; without an axis of all elements."""

    def _convert(step: TorchStep) -> Result:
        if step.arguments.get("dim") is None and step.operator.endswith("median"):
            flat = step.emit("flat", relax.op.reshape(step.x, (math.prod(shape(step.x)),)))
            whole = replace(step, arguments={"self": flat, "dim": 0})
            found = _convert(whole)
            assert isinstance(found, list)
            return found[0]
        axis, kept = step.axis("dim", -1), step.flag("keepdim", False)
        size = shape(step.x)[axis]
        rank = rank_of(step, size)
        both = ordered(step, size, axis, descending=False)
        parts = []
        for name, part in zip(("values", "indices"), both, strict=True):
            whole = step.emit(name, part)
            one = relax.op.strided_slice(whole, [axis], [rank], [rank + 1])
            parts.append(one if kept else relax.op.squeeze(step.emit("one", one), [axis]))
        return parts

    return _convert


def _rounded(step: TorchStep) -> Result:
    """Round half to even, at ``decimals`` behind the point."""
    decimals = step.integer("decimals", 0)
    if not decimals:
        return relax.op.round(step.x)
    factor = step.number(10.0**decimals)
    scaled = step.emit("scaled", relax.op.multiply(step.x, factor))
    return relax.op.divide(step.emit("whole", relax.op.round(scaled)), factor)


def _bilinear(step: TorchStep) -> Result:
    """``x1 @ weight[k] @ x2`` for each output k."""
    a, b, w = step.tensor("input1"), step.tensor("input2"), step.tensor("weight")
    count, rows, columns = shape(w)
    lead = list(shape(a)[:-1])
    left = step.emit("left", relax.op.reshape(a, (-1, rows)))
    right = step.emit("right", relax.op.reshape(b, (-1, 1, columns)))
    stacked = step.emit("stacked", relax.op.permute_dims(w, [1, 0, 2]))
    matrix = step.emit("matrix", relax.op.reshape(stacked, (rows, count * columns)))
    product = step.emit("product", relax.op.matmul(left, matrix))
    parts = step.emit("parts", relax.op.reshape(product, (-1, count, columns)))
    terms = step.emit("terms", relax.op.multiply(parts, right))
    y = relax.op.reshape(step.emit("sum", relax.op.sum(terms, [2])), [*lead, count])
    bias = step.optional_tensor("bias")
    return y if bias is None else relax.op.add(step.emit("outputs", y), bias)


def _shifted_exponent(step: TorchStep) -> Result:
    """``x * 2 ** other``."""
    x, other = promoted(step, "self", "other", least="float32")
    two = relax.const(np.asarray(2, dtype(x)))
    return relax.op.multiply(x, step.emit("power", relax.op.power(two, other)))


def _random_slope(step: TorchStep) -> Result:
    """Scale what is negative by the mean of the bounds, as it is out of training."""
    if step.flag("training", False):
        raise ValueError("it is in training mode: call model.eval() before the export")
    slope = (step.real("lower", 1 / 8) + step.real("upper", 1 / 3)) / 2
    return relax.op.nn.leakyrelu(step.x, slope)


def _histogram(step: TorchStep) -> Result:
    """Count the elements in each of as many bins, all of one width; those outside in none."""
    count, least, most = step.integer("bins", 100), step.real("min", 0.0), step.real("max", 0.0)
    if not least < most or count < 1:
        raise NotImplementedError(
            f"{count} bins from {least} to {most}; bounds are read, not found"
        )
    x = as_type(step, step.x, "float32")
    column = step.emit("column", relax.op.reshape(x, (math.prod(shape(x)), 1)))
    edges = np.linspace(least, most, count + 1).astype("float32")
    above = relax.op.greater_equal(column, relax.const(edges[:-1]))
    # The last bin has its upper bound too.
    ends = relax.const(np.append(edges[1:-1], np.nextafter(edges[-1], np.float32(np.inf))))
    below = relax.op.less(column, ends)
    inside = relax.op.logical_and(step.emit("above", above), step.emit("below", below))
    hits = as_type(step, step.emit("inside", inside), dtype(step.x))
    return relax.op.sum(hits, [0])


def _quantile(step: TorchStep) -> Result:
    """Interpolate between elements in order; several quantiles stand along a new first axis."""
    q = step.arguments.get("q")
    parts = constant(q) if isinstance(q, relax.Expr) else np.asarray(q)
    method = step.text("interpolation", "linear")
    if parts is None or method != "linear" or parts.ndim > 1:
        raise NotImplementedError(
            f"computed quantiles, or {method} ones; constant linear ones are read"
        )
    kept = list(shape(step.x))
    if step.arguments.get("dim") is None:
        flat = step.emit("flat", relax.op.reshape(step.x, (math.prod(kept),)))
        step = replace(step, arguments={**step.arguments, "self": flat})
        axis, kept = 0, [1] * len(kept)
    else:
        axis = step.axis("dim")
        kept[axis] = 1
    size = shape(step.x)[axis]
    values = step.emit("values", ordered(step, size, axis, descending=False)[0])
    places = parts.reshape(-1).astype("float64") * (size - 1)
    below, above = (
        step.emit("near", taken(step, values, relax.const(near.astype("int64"), "int64"), axis))
        for near in (np.floor(places), np.ceil(places))
    )
    view = [-1 if i == axis else 1 for i in range(step.rank)]
    weights = relax.const((places - np.floor(places)).reshape(view).astype("float32"))
    way = step.emit("way", relax.op.subtract(above, below))
    part = step.emit("part", relax.op.multiply(way, weights))
    y = step.emit("between", relax.op.add(below, part))
    order = [axis, *(i for i in range(step.rank) if i != axis)]
    if not step.flag("keepdim", False):
        kept = [shape(step.x)[i] for i in order[1:]]
    front = step.emit("front", relax.op.permute_dims(y, order))
    return relax.op.reshape(front, [*parts.shape, *kept])


def _middle(step: TorchStep, size: int) -> int:
    return (size - 1) // 2


def _kth(step: TorchStep, size: int) -> int:
    rank = step.integer("k") - 1
    if not 0 <= rank < size:
        raise ValueError(f"element {rank + 1} of {size}")
    return rank


SPECIAL: dict[str, Converter] = {
    "bilinear": _bilinear,
    "bucketize": _bucket("self", "boundaries"),
    "copysign": _copied_sign,
    "cross": _cross,
    "dist": _distance,
    "erfc": _erfc,
    "float_power": _float_power,
    "histc": _histogram,
    "hypot": _hypotenuse,
    "kron": _kronecker,
    "kthvalue": _in_order(_kth),
    "ldexp": _shifted_exponent,
    "linalg_cross": _cross,
    "median": _in_order(_middle),
    "nanmean": _without_nan(mean=True),
    "nansum": _without_nan(mean=False),
    "quantile": _quantile,
    "round": _rounded,
    "rrelu": _random_slope,
    "searchsorted": _bucket("self", "sorted_sequence"),
    "signbit": _is_negative,
    "special_erfc": _erfc,
    "take": _take,
    "trace": _trace,
}
