"""Weights of layers must be finite; other constants, as masks that are added, may be infinite."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from tvm import IRModule, relax

from relay_int8.errors import FrontendError
from relay_int8.graph.dataflow import arguments, calls, constant, operator, shape

LAYERS = {
    "dequantize",
    "matmul",
    "nn.batch_norm",
    "nn.conv1d",
    "nn.conv1d_transpose",
    "nn.conv2d",
    "nn.conv2d_transpose",
    "nn.conv3d",
    "nn.conv3d_transpose",
    "nn.group_norm",
    "nn.instance_norm",
    "nn.layer_norm",
    "nn.prelu",
    "nn.rms_norm",
    "quantize",
}
"""Operators whose constant operands are weights, or parameters of quantization."""
BIASED = {name for name in LAYERS if name.startswith("nn.conv")} | {"matmul"}
MOVES = {
    "astype",
    "broadcast_to",
    "concat",
    "expand_dims",
    "permute_dims",
    "reshape",
    "squeeze",
    "strided_slice",
}
NO_NAMES: Mapping[relax.Expr, str] = MappingProxyType({})

Values = Mapping[relax.Var, relax.Expr]


def check_finite(mod: IRModule, names: Mapping[relax.Expr, str] = NO_NAMES) -> IRModule:
    """Return ``mod`` if every weight and bias of its layers is finite.

    A bias is a constant that is added to each channel of what a layer with constant weights gives.

    Parameters
    ----------
    mod
        As it was imported.
    names
        Constant -> its name in the file, where it is known.

    Raises
    ------
    FrontendError
        If one is not.
    """
    values = dict(calls(mod["main"]))
    broken = [
        names.get(weight, f"a weight of {var.name}")
        for var, value in values.items()
        for operand in _weights(value, values)
        for weight in _constants(operand, values)
        if _is_infinite(weight)
    ]
    if broken:
        raise FrontendError(
            f"NaN or infinite values: {', '.join(dict.fromkeys(broken))}; "
            "weights must be finite: check the training or the export"
        )
    return mod


def _weights(value: relax.Expr, values: Values) -> list[relax.Expr]:
    """Return the operands of a call that are weights where they are constant."""
    op = operator(value)
    if op in LAYERS:
        return arguments(value)
    if op not in ("add", "subtract"):
        return []
    for x, other in (value.args, reversed(value.args)):
        layer = _behind_moves(x, values)
        if operator(layer) in BIASED and any(_constants(a, values) for a in layer.args[1:2]):
            return [other] if _is_of_channels(other, value, operator(layer)) else []
    return []


def _behind_moves(value: relax.Expr, values: Values) -> relax.Expr:
    source = values.get(value, value)
    while operator(source) in ("reshape", "squeeze"):
        source = values.get(source.args[0], source.args[0])
    return source


def _is_of_channels(operand: relax.Expr, total: relax.Expr, layer: str) -> bool:
    """Whether an operand has one number a channel at most."""
    axis = -1 if layer == "matmul" else 1
    rank = len(shape(total))
    dims = (1,) * (rank - len(shape(operand))) + shape(operand)
    return all(extent == 1 for i, extent in enumerate(dims) if i != axis % rank)


def _constants(value: relax.Expr, values: Values) -> list[relax.Expr]:
    """Return the constants that an operand is made of, by moves alone."""
    if isinstance(value, relax.Var):
        call = values.get(value)
        if call is None or operator(call) not in MOVES:
            return []
        return [leaf for part in arguments(call) for leaf in _constants(part, values)]
    return [] if constant(value) is None else [value]


def _is_infinite(weight: relax.Expr) -> bool:
    array = constant(weight)
    return array is not None and array.dtype.kind == "f" and not np.isfinite(array).all()
