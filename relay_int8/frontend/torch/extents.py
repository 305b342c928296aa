"""Arithmetic of shapes in PyTorch programs: numbers in, numbers out.

Programs that leave extents open (dynamic shapes) hold the arithmetic of their Python code: pads to
the next multiple, the larger of two sides, scales of attention by the number of tokens. Here every
extent is known, and so is what follows from it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from tvm import relax

from relay_int8.frontend.torch.step import DEPENDS_ON_VALUES, Converter, Result, TorchStep
from relay_int8.graph.dataflow import constant, dtype, shape

Number = int | float  # and bool, which is an int
LARGEST = 2**53  # whole numbers up to here are floats too: no extent is larger


def _item(step: TorchStep) -> Result:
    """Return the whole number that a constant of one element is, a computed one as a tensor.

    ``scores[best]`` is written so, if ``best`` is an argmax: an index may be computed.
    """
    array = constant(step.x)
    if array is None and not shape(step.x) and dtype(step.x) in ("int32", "int64"):
        return step.x
    if array is None or array.size != 1:
        raise NotImplementedError(DEPENDS_ON_VALUES)
    if array.dtype.kind not in "iu":
        raise NotImplementedError(f"a number of {array.dtype}; whole ones are read")
    return int(array.reshape(()))


def _size(step: TorchStep) -> Result:
    return int(shape(step.x)[step.axis("dim")])


def _operands(step: TorchStep, count: int) -> list[Number]:
    """Return the operands, which must be numbers, in order."""
    numbers = list(step.arguments.values())
    if any(isinstance(value, relax.Expr) for value in numbers):
        raise NotImplementedError(DEPENDS_ON_VALUES)
    if len(numbers) != count or not all(isinstance(value, Number) for value in numbers):
        raise ValueError(f"its operands are {numbers}, not {count} numbers")
    return numbers


def _number(compute: Callable[..., Number], count: int = 2) -> Converter:
    """Compute with extents, and with numbers that follow from them."""

    def _convert(step: TorchStep) -> Result:
        operands = _operands(step, count)
        try:
            result = compute(*operands)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise ValueError(f"it has no result for {operands}: {error}") from error
        if not isinstance(result, Number) or not abs(result) <= LARGEST:
            raise ValueError(f"its result for {operands} is {result}, no extent")
        return result

    return _convert


def _power(base: Number, exponent: Number) -> Number:
    if abs(exponent) > math.log2(LARGEST):  # before Python computes a number of a million digits
        raise ValueError("the exponent is too large")
    result = base**exponent
    if isinstance(result, complex):
        raise ValueError("the base is negative")
    return result


def _shifted_left(number: int, bits: int) -> int:
    if bits > math.log2(LARGEST):
        raise ValueError("too many bits")
    return number << bits


def _whole(number: Number) -> int:
    """Return a number without its part behind the point, as ``int`` does."""
    return math.trunc(number)


def _either(condition: Number, then: Number, otherwise: Number) -> Number:
    return then if condition else otherwise


EXTENTS: dict[str, Converter] = {
    "_operator.add": _number(operator.add),
    "_operator.and_": _number(operator.and_),
    "_operator.eq": _number(operator.eq),
    "_operator.floordiv": _number(operator.floordiv),
    "_operator.ge": _number(operator.ge),
    "_operator.gt": _number(operator.gt),
    "_operator.le": _number(operator.le),
    "_operator.lshift": _number(_shifted_left),
    "_operator.lt": _number(operator.lt),
    "_operator.mod": _number(operator.mod),
    "_operator.mul": _number(operator.mul),
    "_operator.ne": _number(operator.ne),
    "_operator.neg": _number(operator.neg, 1),
    "_operator.or_": _number(operator.or_),
    "_operator.pos": _number(operator.pos, 1),
    "_operator.pow": _number(_power),
    "_operator.rshift": _number(operator.rshift),
    "_operator.sub": _number(operator.sub),
    "_operator.truediv": _number(operator.truediv),
    "aten._local_scalar_dense": _item,
    "aten.item": _item,
    "aten.sym_size": _size,
    "math.trunc": _number(_whole, 1),
    "torch._sym_sqrt": _number(math.sqrt, 1),
    "torch.sym_float": _number(float, 1),
    "torch.sym_int": _number(_whole, 1),
    "torch.sym_ite": _number(_either, 3),
    "torch.sym_max": _number(max),
    "torch.sym_min": _number(min),
    "torch.sym_not": _number(operator.not_, 1),
}
"""Operators by their full names: all that ``torch.export`` writes of numbers."""
