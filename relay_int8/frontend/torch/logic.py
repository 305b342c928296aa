"""PyTorch operators that compare, combine truth values, and choose by them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.promotion import as_type, common_type, promoted
from relay_int8.frontend.torch.step import Converter, Result, TorchStep, axis_of
from relay_int8.graph.dataflow import dtype

Binary = Callable[[relax.Expr, relax.Expr], relax.Expr]


def truth(step: TorchStep, x: relax.Expr) -> relax.Expr:
    """Return a tensor as truth values: what is not zero is true."""
    if dtype(x) == "bool":
        return x
    return step.emit("truth", relax.op.not_equal(x, relax.const(0, dtype(x))))


def _compare(combine: Binary) -> Converter:
    def _convert(step: TorchStep) -> Result:
        return combine(*promoted(step, "self", "other"))

    return _convert


def _combine(combine: Binary) -> Converter:
    def _convert(step: TorchStep) -> Result:
        return combine(truth(step, step.x), truth(step, step.tensor("other")))

    return _convert


def _bits(of_truth: Binary, of_integers: Binary) -> Converter:
    """Combine bits; of truth values that is logic."""

    def _convert(step: TorchStep) -> Result:
        a, b = promoted(step, "self", "other")
        if dtype(a).startswith("float"):
            raise ValueError("bits of floats")
        return (of_truth if dtype(a) == "bool" else of_integers)(a, b)

    return _convert


def _bitwise_not(step: TorchStep) -> Result:
    return (relax.op.logical_not if dtype(step.x) == "bool" else relax.op.bitwise_not)(step.x)


def _where(step: TorchStep) -> Result:
    if "self" not in step.arguments:
        raise NotImplementedError("the positions of true values, whose number is not known")
    a, b = promoted(step, "self", "other")
    return relax.op.where(truth(step, step.tensor("condition")), a, b)


def _masked_fill(step: TorchStep) -> Result:
    """Write a value where the mask is true; the result keeps its type."""
    value = step.arguments.get("value")
    if not isinstance(value, bool | int | float):
        value = step.tensor("value")
    if common_type([step.x, value]) != dtype(step.x):
        raise ValueError(f"it writes {value} into {dtype(step.x)}")
    return relax.op.where(
        truth(step, step.tensor("mask")), as_type(step, value, dtype(step.x)), step.x
    )


def _some(reduce: Callable[..., relax.Expr]) -> Converter:
    """Reduce truth values by their largest, or least, as bytes: TVM reduces no truth values."""

    def _convert(step: TorchStep) -> Result:
        axes = [axis_of(axis, step.rank) for axis in step.integers("dim", [])]
        whole = step.emit("bytes", relax.op.astype(truth(step, step.x), "int8"))
        reduced = reduce(
            whole, axes or list(range(step.rank)), keepdims=step.flag("keepdim", False)
        )
        return relax.op.astype(step.emit("reduced", reduced), "bool")

    return _convert


def _is(value: float) -> Converter:
    """Whether elements are infinite, or, for NaN, not equal to themselves."""

    def _convert(step: TorchStep) -> Result:
        if not dtype(step.x).startswith("float"):
            return relax.op.not_equal(step.x, step.x)
        if np.isnan(value):
            return relax.op.isnan(step.x)
        return relax.op.equal(step.emit("size", relax.op.abs(step.x)), step.number(value))

    return _convert


def _is_finite(step: TorchStep) -> Result:
    if not dtype(step.x).startswith("float"):
        return relax.op.equal(step.x, step.x)
    size = step.emit("size", relax.op.abs(step.x))
    return relax.op.less(size, step.number(np.inf))


def _is_close(step: TorchStep) -> Result:
    """Whether ``abs(a - b) <= atol + rtol * abs(b)``, or both are the same, infinite ones too."""
    a, b = promoted(step, "self", "other", least="float32")
    if step.flag("equal_nan", False):
        raise NotImplementedError("NaN that equals NaN")
    apart = step.emit("apart", relax.op.abs(step.emit("between", relax.op.subtract(a, b))))
    size = step.emit("size", relax.op.abs(b))
    scaled = step.emit("scaled", relax.op.multiply(size, relax.const(step.real("rtol", 1e-5))))
    bound = step.emit("bound", relax.op.add(scaled, relax.const(step.real("atol", 1e-8))))
    finite = step.emit("finite", relax.op.less(apart, relax.const(np.float32(np.inf))))
    near = step.emit("near", relax.op.less_equal(apart, bound))
    near = step.emit("close", relax.op.logical_and(finite, near))
    return relax.op.logical_or(near, step.emit("same", relax.op.equal(a, b)))


def _is_among(step: TorchStep) -> Result:
    """Whether elements are equal to one of others."""
    names = (
        "elements" if "elements" in step.arguments else "element",
        "test_elements" if "test_elements" in step.arguments else "test_element",
    )
    elements, others = promoted(step, *names)
    each = step.emit("each", relax.op.expand_dims(elements, -1))
    row = step.emit("row", relax.op.reshape(others, (-1,)))
    equal = step.emit("equal", relax.op.equal(each, row))
    found = _some(relax.op.max)(replace(step, arguments={"self": equal, "dim": [-1]}))
    assert isinstance(found, relax.Expr)
    if not step.flag("invert", False):
        return found
    return relax.op.logical_not(step.emit("found", found))


LOGIC: dict[str, Converter] = {
    "__and__": _bits(relax.op.logical_and, relax.op.bitwise_and),
    "__or__": _bits(relax.op.logical_or, relax.op.bitwise_or),
    "__xor__": _bits(relax.op.logical_xor, relax.op.bitwise_xor),
    "all": _some(relax.op.min),
    "any": _some(relax.op.max),
    "bitwise_and": _bits(relax.op.logical_and, relax.op.bitwise_and),
    "bitwise_not": _bitwise_not,
    "bitwise_or": _bits(relax.op.logical_or, relax.op.bitwise_or),
    "bitwise_xor": _bits(relax.op.logical_xor, relax.op.bitwise_xor),
    "eq": _compare(relax.op.equal),
    "ge": _compare(relax.op.greater_equal),
    "gt": _compare(relax.op.greater),
    "isfinite": _is_finite,
    "isclose": _is_close,
    "isin": _is_among,
    "isinf": _is(np.inf),
    "isneginf": lambda step: relax.op.equal(step.x, step.number(-np.inf)),
    "isposinf": lambda step: relax.op.equal(step.x, step.number(np.inf)),
    "isnan": _is(np.nan),
    "le": _compare(relax.op.less_equal),
    "logical_and": _combine(relax.op.logical_and),
    "logical_not": lambda step: relax.op.logical_not(truth(step, step.x)),
    "logical_or": _combine(relax.op.logical_or),
    "logical_xor": _combine(relax.op.logical_xor),
    "lt": _compare(relax.op.less),
    "masked_fill": _masked_fill,
    "ne": _compare(relax.op.not_equal),
    "where": _where,
}
