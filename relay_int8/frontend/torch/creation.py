"""PyTorch operators that make a tensor of nothing but numbers: constants of the import."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from tvm import relax

from relay_int8.frontend.folding import MOST_ELEMENTS
from relay_int8.frontend.torch.file import DTYPES, Array
from relay_int8.frontend.torch.promotion import NUMBERS
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import constant, dtype, shape


def element_type(step: TorchStep, default: str) -> str:
    """Return the type that ``dtype`` names; every float is float32 here."""
    number = step.arguments.get("dtype")
    kind = default if number is None else DTYPES.get(number, f"type {number}")
    if kind.startswith(("float", "bfloat")):
        return "float32"
    if kind not in DTYPES.values():
        raise NotImplementedError(f"element {kind}")
    return kind


def filled(sizes: Sequence[int], value: float, kind: str) -> relax.Expr:
    """Return a constant of one value."""
    # Without elements are parts of a concat that may be missing, as segmentations' skips.
    if any(size < 0 for size in sizes) or math.prod(sizes) > MOST_ELEMENTS:
        raise NotImplementedError(
            f"a constant of {list(sizes)}; extents are at least 0, elements at most {MOST_ELEMENTS}"
        )
    return relax.const(np.full(sizes, value, kind), kind)


def _of_size(value: float | None = None) -> Converter:
    """Fill ``size`` with a value, or with ``fill_value``; ``new_*`` take the type of self."""

    def _convert(step: TorchStep) -> Result:
        number = _fill_value(step) if value is None else value
        default = "float32" if value is not None else NUMBERS[type(number)]
        if "self" in step.arguments:
            default = dtype(step.x)
        return filled(step.integers("size"), number, element_type(step, default))

    return _convert


def _like(value: float | None = None) -> Converter:
    """Fill the shape of a tensor."""

    def _convert(step: TorchStep) -> Result:
        number = _fill_value(step) if value is None else value
        return filled(shape(step.x), number, element_type(step, dtype(step.x)))

    return _convert


def _fill_value(step: TorchStep, name: str = "fill_value") -> bool | int | float:
    value = step.arguments.get(name)
    if not isinstance(value, bool | int | float):
        raise ValueError(f"its {name} is {value}, no number")
    return value


def _arange(step: TorchStep) -> Result:
    """Count from ``start`` to before ``end``; whole numbers where all three are."""
    end = _fill_value(step, "end")
    start, stride = (
        default if step.arguments.get(name) is None else _fill_value(step, name)
        for name, default in (("start", 0), ("step", 1))
    )
    if not stride or not all(map(math.isfinite, (start, end, stride))):
        raise ValueError(f"it counts from {start} to {end} by {stride}")
    count = math.ceil((end - start) / stride)
    if not 0 < count <= MOST_ELEMENTS:
        raise NotImplementedError(f"{count} numbers; they are 1 to {MOST_ELEMENTS}")
    whole = all(isinstance(number, int) for number in (start, end, stride))
    kind = element_type(step, "int64" if whole else "float32")
    # In double precision, as torch counts floats too.
    return relax.const((start + stride * np.arange(count)).astype(kind), kind)


def _line(step: TorchStep) -> Result:
    """Return ``steps`` numbers from ``start`` to ``end``, evenly apart."""
    start, end, count = step.real("start"), step.real("end"), step.integer("steps")
    if not 0 < count <= MOST_ELEMENTS or not all(map(math.isfinite, (start, end))):
        raise ValueError(f"{count} numbers from {start} to {end}")
    kind = element_type(step, "float32")
    return relax.const(np.linspace(start, end, count).astype(kind), kind)


def _identity(step: TorchStep) -> Result:
    """Return a matrix with ones on its diagonal."""
    rows = step.integer("n")
    columns = step.integer("m", rows)
    if min(rows, columns) < 1 or rows * columns > MOST_ELEMENTS:
        raise NotImplementedError(f"a matrix of {rows} x {columns}")
    kind = element_type(step, "float32")
    return relax.const(np.eye(rows, columns, dtype=kind), kind)


def _one_hot(step: TorchStep) -> Result:
    """Return 1 at the index of each element along an axis more, else 0."""
    classes = step.integer("num_classes", -1)
    if classes < 1:
        raise NotImplementedError("how many classes there are depends on values: give num_classes")
    apart = step.emit("apart", relax.op.expand_dims(step.x, step.rank))
    kind = dtype(step.x)
    hit = relax.op.equal(apart, relax.const(np.arange(classes, dtype=kind), kind))
    return relax.op.astype(step.emit("hit", hit), "int64")


def _scalar_tensor(step: TorchStep) -> Result:
    kind = element_type(step, "float32")
    return relax.const(np.asarray(_fill_value(step, "s"), kind), kind)


def _fill(step: TorchStep) -> Result:
    """Write one value, a number or a tensor of one element, everywhere."""
    value = step.arguments.get("value")
    if isinstance(value, relax.Expr):
        array = constant(value)
        if array is None or array.size != 1:
            raise NotImplementedError(f"a value {list(shape(value))} that is no constant number")
        value = array.reshape(()).item()
    if not isinstance(value, bool | int | float):
        raise ValueError(f"its value is {value}")
    return filled(shape(step.x), value, dtype(step.x))


def _window(offset: float) -> Converter:
    """Write ``offset - (1 - offset) * cos`` of a turn, which begins anew behind a periodic one."""

    def _values(step: TorchStep, part: Array) -> Array:
        a = step.real("alpha", offset)
        return a - step.real("beta", 1 - a) * np.cos(2 * np.pi * part)

    return _of_turn(_values)


def _of_turn(values: Callable[[TorchStep, Array], Array]) -> Converter:
    """Write a window: values of parts 0 to 1 of a turn, which has no end if it is periodic."""

    def _convert(step: TorchStep) -> Result:
        size = step.integer("window_length")
        turn = size if step.flag("periodic", True) else max(size - 1, 1)
        found = values(step, np.arange(size) / turn)
        return relax.const(found.astype(np.float32) if size > 1 else np.ones(size, "float32"))

    return _convert


def _blackman(step: TorchStep, part: Array) -> Array:
    return 0.42 - 0.5 * np.cos(2 * np.pi * part) + 0.08 * np.cos(4 * np.pi * part)


def _kaiser(step: TorchStep, part: Array) -> Array:
    beta = step.real("beta", 12.0)
    return np.asarray(np.i0(beta * np.sqrt(np.maximum(1 - (2 * part - 1) ** 2, 0))) / np.i0(beta))


def _triangle_indices(find: Callable[[int, int, int], tuple[Array, Array]]) -> Converter:
    """Return rows and columns of the elements of a triangle."""

    def _convert(step: TorchStep) -> Result:
        rows, columns = step.integer("row"), step.integer("col")
        if min(rows, columns) < 1 or rows * columns > MOST_ELEMENTS:
            raise NotImplementedError(f"a matrix of {rows} x {columns}")
        places = np.stack(find(rows, step.integer("offset", 0), columns))
        kind = element_type(step, "int64")
        return relax.const(places.astype(kind), kind)

    return _convert


# Values of a tensor that torch leaves undefined are zero here.
CREATION: dict[str, Converter] = {
    "arange": _arange,
    "bartlett_window": _of_turn(lambda _, part: 1 - np.abs(2 * part - 1)),
    "blackman_window": _of_turn(_blackman),
    "empty": _of_size(0),
    "eye": _identity,
    "empty_like": _like(0),
    "fill": _fill,
    "full": _of_size(),
    "full_like": _like(),
    "hamming_window": _window(0.54),
    "hann_window": _window(0.5),
    "kaiser_window": _of_turn(_kaiser),
    "linspace": _line,
    "new_empty": _of_size(0),
    "new_full": _of_size(),
    "new_ones": _of_size(1),
    "new_zeros": _of_size(0),
    "one_hot": _one_hot,
    "ones": _of_size(1),
    "ones_like": _like(1),
    "scalar_tensor": _scalar_tensor,
    "tril_indices": _triangle_indices(np.tril_indices),
    "triu_indices": _triangle_indices(np.triu_indices),
    "zero": _like(0),
    "zeros": _of_size(0),
    "zeros_like": _like(0),
}
