"""Functions that importers of graphs share: refusals, bindings, errors that name the operator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.errors import FrontendError, UnsupportedOpError
from relay_int8.frontend.options import output_option
from relay_int8.graph.dataflow import FunctionWriter, operator, shape
from relay_int8.messages import few

Array = np.ndarray[Any, Any]
MAX_EXTENT = 2**31
MOST_SAID = 32  # tensors that a message names; a detector with five maps has 15 to be cut at
WITHOUT = "export the model without them"
CONVERTER_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What TVM's converters, its shape inference and NumPy raise at an operator that they do not
understand: RuntimeError is the base of TVM's own errors and of NotImplementedError."""


def check_batch(batch: int | None) -> None:
    """Refuse a batch without images, where one is asked for."""
    if batch is not None and batch < 1:
        raise FrontendError(f"batch is {batch}; it must be at least 1")


def check_inputs(inputs: Sized) -> None:
    """Refuse a model that only constants go into."""
    if not inputs:
        raise FrontendError("the model has no data input: nothing to run, nothing to calibrate")


RANDOM_NUMBERS = "its numbers are random, others in every run; make an input of them"
"""Why an operator that draws numbers is not read."""


def refuse_operators(
    missing: Mapping[str, Sequence[str]],
    *,
    reads: Iterable[str] = (),
    advice: str | None = None,
    reasons: Mapping[str, str] | None = None,
) -> None:
    """Refuse operators that no converter knows, all of them at once.

    Parameters
    ----------
    missing
        Operator -> the names of its nodes; empty where all are known.
    reads
        Tensors that they read, of those that are computed: where a user can cut the model.
    advice
        What to do, where the model cannot be cut.
    reasons
        Operator -> why it is not known, where there is more to say.
    """
    if not missing:
        return
    why = reasons or {}
    operators = "; ".join(
        f"{operator} ({few(names)}{': ' + why[operator] if operator in why else ''})"
        for operator, names in missing.items()
    )
    raise UnsupportedOpError(
        f"{len(missing)} kind{'s' if len(missing) > 1 else ''} of operator cannot be imported: "
        f"{operators}; "
        f"{advice or f'{WITHOUT}, or make outputs of what they read ({cut_option(reads)})'}"
    )


def cut_option(names: Iterable[str]) -> str:
    """Return the option that makes outputs of tensors."""
    distinct = list(dict.fromkeys(name for name in names if name)) or ["TENSOR"]
    return output_option(distinct[:MOST_SAID], more=len(distinct) > MOST_SAID)


class SizedByValuesError(NotImplementedError):
    """How large a result is depends on values of the input, and so no kernel is made for it."""


class ImportWriter(FunctionWriter):
    """Binds results whose every extent is known, positive and less than 2**31.

    A slice may have no elements: a concat drops it, and what computes with it is refused.
    """

    def emit(self, name: str, value: relax.Expr) -> relax.Var:
        """Bind ``value`` under ``name``; ValueError at another extent."""
        var = super().emit(name, value)
        least = 0 if operator(value) == "strided_slice" else 1
        if isinstance(var.ty, relax.TensorType) and not all(
            isinstance(extent, int) and least <= extent < MAX_EXTENT for extent in shape(var)
        ):
            raise ValueError(f"its result would be {list(shape(var))}")
        return var

    def bound(self, name: str, value: Any) -> Any:
        """Bind a call; a value that a node returns unchanged keeps its name."""
        is_new = isinstance(value, relax.Call | relax.TupleGetItem)
        return self.emit(name, value) if is_new else value


TVM_OPERATOR = re.compile(r'\bir\.Op\(.*?name="relax\.([\w.]+)".*?support_level=\d+\)')
TVM_SHAPE = re.compile(r"\bR\.shape\((\[.*?\])\)")
TVM_NUMBER = re.compile(r"\bT\.int\d+\((-?\d+)\)")
TVM_NOTE = re.compile(r"# Metadata omitted\. Use .*? to show it\.\s*")
"""How TVM 0.27 writes an operator, a shape, an extent and an operand left out into messages."""


@contextmanager
def converting(title: str, wish: str = "") -> Iterator[None]:
    """Make errors of a converter name its operator, and the ``wish`` it could not follow.

    Raises
    ------
    UnsupportedOpError
        If the converter raised NotImplementedError.
    FrontendError
        If it raised another of :data:`CONVERTER_ERRORS`.
    """
    try:
        yield
    except NotImplementedError as err:
        raise UnsupportedOpError(f"{title} cannot be imported: {err}") from err
    except CONVERTER_ERRORS as err:
        raise FrontendError(f"{title} cannot be read{wish}: {reason_of(err)}") from err


def reason_of(error: BaseException) -> str:
    """Return the last line of a converter's error, without TVM's notation of operators and numbers.

    Examples
    --------
    >>> reason_of(ValueError('In ir.Op(name="relax.add", support_level=10), dim 2 is T.int64(4)'))
    'In add, dim 2 is 4'
    """
    lines = TVM_NOTE.sub("", str(error)).strip().splitlines()
    if not lines:
        return type(error).__name__
    return TVM_NUMBER.sub(r"\1", TVM_SHAPE.sub(r"\1", TVM_OPERATOR.sub(r"\1", lines[-1])))


def float32_weight(name: str, array: Array) -> Array:
    """Return a parameter as the network computes with it; FrontendError if it has no numbers.

    Masks are infinite; weights must not be, see :func:`relay_int8.frontend.weights.check_finite`.
    """
    if array.dtype.kind != "f":
        return array
    if np.isnan(array).any():
        raise FrontendError(
            f"parameter {name} has NaN or infinite values; weights must be finite: check the "
            "training or the export"
        )
    with np.errstate(over="ignore"):
        return array.astype(np.float32)
