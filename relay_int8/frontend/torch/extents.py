"""Arithmetic of shapes in PyTorch programs: whole numbers in, whole numbers out."""

from __future__ import annotations

import operator
from collections.abc import Callable

from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import constant, shape


def _item(step: TorchStep) -> Result:
    """Return the whole number that a constant of one element is."""
    array = constant(step.x)
    if array is None or array.size != 1:
        raise NotImplementedError("a number that depends on values of the input")
    if array.dtype.kind not in "iu":
        raise NotImplementedError(f"a number of {array.dtype}; whole ones are read")
    return int(array.reshape(()))


def _size(step: TorchStep) -> Result:
    return int(shape(step.x)[step.axis("dim")])


def _number(compute: Callable[[int, int], int]) -> Converter:
    """Compute with extents."""

    def _convert(step: TorchStep) -> Result:
        a, b = (step.integer(name) for name in ("a", "b"))
        return compute(a, b)

    return _convert


EXTENTS: dict[str, Converter] = {
    "_operator.add": _number(operator.add),
    "_operator.floordiv": _number(operator.floordiv),
    "_operator.mul": _number(operator.mul),
    "_operator.sub": _number(operator.sub),
    "aten._local_scalar_dense": _item,
    "aten.item": _item,
    "aten.sym_size": _size,
}
"""Operators by their full names."""
