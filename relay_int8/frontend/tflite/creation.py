"""TFLite operators that make tensors of shapes and numbers alone, computed while a file is read."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tvm import relax

from relay_int8.frontend.folding import MOST_ELEMENTS
from relay_int8.frontend.tflite.step import Converter, TfliteStep
from relay_int8.frontend.tflite.tables import Array
from relay_int8.frontend.tflite.tensors import Result, quantization_of


def _shape(step: TfliteStep) -> Result:
    return _constant(step, np.array(step.shape(0)))


def _rank(step: TfliteStep) -> Result:
    return _constant(step, np.array(len(step.shape(0))))


def _broadcast_args(step: TfliteStep) -> Result:
    """Return the shape that two shapes are broadcast to."""
    shapes = [step.integers(index, "shape") for index in (0, 1)]
    return _constant(step, np.array(np.broadcast_shapes(*shapes)))


def _fill(step: TfliteStep) -> Result:
    """Return a tensor of one value, which may be computed."""
    sizes = step.integers(0, "shape")
    _check_size(sizes)
    if (value := step.known(1)) is not None:
        if quantization_of(step.outputs[0]):
            value = step.reals(1)
        return _constant(step, np.full(sizes, value.reshape(())))
    return relax.op.broadcast_to(step.plain(1), list(sizes))


def _range(step: TfliteStep) -> Result:
    start, limit, stride = (_number(step, index) for index in range(3))
    if not stride or not all(map(math.isfinite, (start, limit, stride))):
        raise ValueError(f"numbers from {start} to {limit} in steps of {stride}")
    _check_size([math.ceil((limit - start) / stride)])
    return _constant(step, np.arange(start, limit, stride))


def _zeros_like(step: TfliteStep) -> Result:
    sizes = step.shape(0)
    _check_size(sizes)
    return _constant(step, np.zeros(sizes))


def _constant(step: TfliteStep, array: Array) -> relax.Expr:
    """Return a constant of the type of the result, reals of a quantized one.

    TVM makes int32 of int64 if it is not told the type.
    """
    kind = "float32" if quantization_of(step.outputs[0]) else step.outputs[0].dtype
    return relax.const(array.astype(kind), kind)


def _number(step: TfliteStep, index: int) -> float:
    value: Array | None = step.known(index)
    if value is None or value.size != 1:
        raise NotImplementedError("a range whose ends are computed, not constant")
    number: float = value.reshape(()).item()
    return number


def _check_size(sizes: Sequence[int]) -> None:
    if min(sizes, default=1) < 1 or math.prod(sizes) > MOST_ELEMENTS:
        raise ValueError(
            f"a constant of {list(sizes)}; extents are at least 1, elements at most {MOST_ELEMENTS}"
        )


CREATION: dict[str, Converter] = {
    "BROADCAST_ARGS": _broadcast_args,
    "FILL": _fill,
    "RANGE": _range,
    "RANK": _rank,
    "SHAPE": _shape,
    "ZEROS_LIKE": _zeros_like,
}
