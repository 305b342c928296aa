"""Inputs that a user gives a value become constants of the model.

Before:  y = If(Equal(rate, 16000), then: f(x), else: g(x))       x and rate are inputs
After:   y = If(Equal(16000, 16000), then: f(x), else: g(x))      x is the input
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from relay_int8.errors import ConfigError, UnsupportedOpError
from relay_int8.frontend.options import Values, require_input, value_option


def fix_inputs(model: onnx.ModelProto, values: Values) -> onnx.ModelProto:
    """Return ``model`` with those of its inputs as constants; itself where there are none.

    Raises
    ------
    ConfigError
        The model has no such input, no other, or one of another size or type.
    UnsupportedOpError
        The input holds strings.
    """
    if not values:
        return model
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name: value for value in model.graph.input if value.name not in weights}
    for name in values:
        require_input(name, value_option(name), inputs)
    if len(values) == len(inputs):
        raise ConfigError(f"all inputs are given a value ({', '.join(inputs)}): nothing is left")
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    kept = [value for value in fixed.graph.input if value.name not in values]
    del fixed.graph.input[:]
    fixed.graph.input.extend(kept)
    fixed.graph.initializer.extend(
        numpy_helper.from_array(_array(inputs[name], np.asarray(given)), name)
        for name, given in values.items()
    )
    return fixed


def refuse_text(declared: onnx.ValueInfoProto) -> None:
    """Raise UnsupportedOpError for an input of strings, even where nothing reads it."""
    if declared.type.tensor_type.elem_type == onnx.TensorProto.STRING:
        raise UnsupportedOpError(
            f"input {declared.name} holds strings, and a network computes with numbers: make an "
            "input of the numbers that they become, or export the model without it"
        )


def _array(declared: onnx.ValueInfoProto, given: np.ndarray) -> np.ndarray:
    """Return a value in the type and shape of an input; one number is that of all its elements."""
    refuse_text(declared)
    tensor = declared.type.tensor_type
    kind = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    option = value_option(declared.name, given.reshape(-1).tolist())
    expected = "True or False" if kind == np.bool_ else "numbers of that type"
    with np.errstate(invalid="ignore"):  # NaN as an integer: it is refused below
        array = given.astype(kind)
    is_other = np.dtype(kind).kind != "f" and (array != given).any()
    if is_other or (given.dtype == np.bool_ != kind):
        raise ConfigError(f"{option}: the model has {np.dtype(kind)} there, {expected} expected")
    dims = [dim.dim_value or None for dim in tensor.shape.dim]
    open_dims = [axis for axis, extent in enumerate(dims) if extent is None]
    if given.size == 1:
        return np.broadcast_to(array.reshape(()), [extent or 1 for extent in dims]).copy()
    known = int(np.prod([extent for extent in dims if extent is not None]))
    if len(open_dims) > 1 or given.size % known or (not open_dims and given.size != known):
        text = ", ".join("?" if extent is None else str(extent) for extent in dims)
        raise ConfigError(f"{option}: {given.size} values found; the model has [{text}]")
    return array.reshape([given.size // known if extent is None else extent for extent in dims])
