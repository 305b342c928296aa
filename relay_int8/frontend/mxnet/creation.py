"""MXNet operators that make a tensor of numbers alone: constants of the import."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tvm import relax

from relay_int8.frontend.folding import MOST_ELEMENTS
from relay_int8.frontend.mxnet.layers import axis_of
from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.graph.dataflow import shape

TYPES = {"float16": "float32", "float32": "float32", "float64": "float32", "int32": "int32"}
TYPES |= {"int64": "int64"}


def _element_type(step: MxnetStep) -> str:
    kind = step.attributes.text("dtype", "float32")
    if kind not in TYPES:
        raise NotImplementedError(f"elements of type {kind}; there are {', '.join(TYPES)}")
    return TYPES[kind]


def _check_size(sizes: Sequence[int]) -> None:
    if min(sizes, default=1) < 0 or math.prod(sizes) > MOST_ELEMENTS:
        raise ValueError(f"a constant of {list(sizes)}; elements are at most {MOST_ELEMENTS}")


def _filled(value: float | None) -> Converter:
    """Fill a shape with one value; an extent of 0 is one that MXNet finds out (states of RNN)."""

    def _convert(step: MxnetStep) -> relax.Expr:
        sizes = [extent or 0 for extent in step.attributes.integers("shape")]
        _check_size(sizes)
        fill = step.attributes.real("value") if value is None else value
        kind = _element_type(step)
        return relax.const(np.full(sizes, fill, kind), kind)

    return _convert


def _arange(step: MxnetStep) -> relax.Expr:
    """Count from start to stop, or to start where there is no stop; each ``repeat`` times."""
    attrs = step.attributes
    start, stride = attrs.real("start", 0.0), attrs.real("step", 1.0)
    if "stop" not in attrs:
        start, stop = 0.0, start
    else:
        stop = attrs.real("stop")
    if not stride:
        raise ValueError("its step is 0")
    _check_size([max(0, math.ceil((stop - start) / stride))])
    numbers, kind = np.arange(start, stop, stride), _element_type(step)
    return relax.const(np.repeat(numbers, attrs.integer("repeat", 1, least=1)).astype(kind), kind)


def _arange_like(step: MxnetStep) -> relax.Expr:
    """Count along an axis, or over the whole tensor."""
    attrs, dims = step.attributes, shape(step.x)
    sizes = (dims[axis_of(attrs.integer("axis"), len(dims))],) if "axis" in attrs else dims
    _check_size(sizes)
    repeat = attrs.integer("repeat", 1, least=1)
    places = np.arange(math.prod(sizes)) // repeat
    numbers = attrs.real("start", 0.0) + places * attrs.real("step", 1.0)
    return relax.const(numbers.astype("float32").reshape(sizes))


CREATION: dict[str, Converter] = {
    "_arange": _arange,
    "_contrib_arange_like": _arange_like,
    "_full": _filled(None),
    "_ones": _filled(1.0),
    "_zeros": _filled(0.0),
}
