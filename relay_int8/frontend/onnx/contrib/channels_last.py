"""Operators on images whose channels are last, by the converters of standard ones.

ONNX Runtime's layouts for quantized networks, and its optimizer of diffusion models, write them.
"""

from __future__ import annotations

from typing import Any

from tvm import relax

from relay_int8.frontend.onnx.contrib.fused import padded
from relay_int8.frontend.onnx.operators.converter import Converter
from relay_int8.frontend.onnx.operators.converters import CONVERTERS
from relay_int8.graph.dataflow import constant, operator, shape

Attributes = dict[str, Any]
EPSILON = 1e-5  # of a GroupNorm that does not say


def channels_last(convert: Converter, *, default: bool = False) -> Converter:
    """Return a converter for both layouts; ``default`` is that of a node that does not say."""

    def _convert(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
        if not attributes.get("channels_last", default):
            return convert(bb, inputs, attributes)
        y = convert(bb, [channels_second(bb, inputs[0]), *inputs[1:]], attributes)
        if isinstance(y, relax.Tuple):
            return relax.Tuple([_last(bb, field) for field in y.fields])
        return _last(bb, y)

    return _convert


def channels_second(bb: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
    """Return ``x`` with its last axis second; what was permuted to ``x`` where it was so before."""
    last = len(shape(x)) - 1
    value = bb.lookup_binding(x) if isinstance(x, relax.Var) else None
    if isinstance(value, relax.Call) and operator(value) == "permute_dims":
        order = value.attrs.axes
        if order is not None and [int(axis) for axis in order] == [0, *range(2, last + 1), 1]:
            return value.args[0]
    return bb.emit(relax.op.permute_dims(x, [0, last, *range(1, last)]))


def _last(bb: relax.BlockBuilder, y: relax.Expr) -> relax.Expr:
    y = bb.emit(y) if isinstance(y, relax.Call) else y
    return bb.emit(relax.op.permute_dims(y, [0, *range(2, len(shape(y))), 1]))


def _conv(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Convolve; weights are (output, *kernel, input), too."""
    x, w, *rest = inputs
    array = constant(w)
    w = channels_second(bb, w) if array is None else relax.const(_second(array))
    return CONVERTERS["Conv"](bb, [x, w, *rest], attributes)


def _second(array: Any) -> Any:
    return array.transpose(0, array.ndim - 1, *range(1, array.ndim - 1)).copy()


def _group_norm(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    x, gamma, beta = inputs[:3]
    axes = list(range(2, len(shape(x))))
    epsilon = float(attributes.get("epsilon", EPSILON))
    groups = int(attributes["groups"])
    y = relax.op.nn.group_norm(x, gamma, beta, groups, 1, axes, epsilon)
    if not attributes["activation"]:
        return y
    y = bb.emit(y)
    return relax.op.multiply(y, bb.emit(relax.op.sigmoid(y)))


def _skip_group_norm(
    bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes
) -> relax.Expr:
    """Normalize the sum of two images and a bias; the sum is the second result."""
    x, gamma, beta, skip, bias = padded(inputs, 5)
    n, c, *sizes = shape(x)
    if len(shape(skip)) == len(shape(x)):
        skip = channels_second(bb, skip) if attributes.get("channels_last", 1) else skip
    else:
        skip = bb.emit(relax.op.reshape(skip, (n, c, *[1] * len(sizes))))
    total = bb.emit(relax.op.add(x, skip))
    if bias is not None:
        along = bb.emit(relax.op.reshape(bias, (1, c, *[1] * len(sizes))))
        total = bb.emit(relax.op.add(total, along))
    y = bb.emit(_group_norm(bb, [total, gamma, beta], attributes))
    if attributes["tvm_custom"]["num_outputs"] == 1:
        return y
    return relax.Tuple([y, total])


CHANNELS_LAST: dict[str, Converter] = {
    "GroupNorm": channels_last(_group_norm, default=True),
    "NhwcConv": channels_last(_conv, default=True),
    "NhwcMaxPool": channels_last(CONVERTERS["MaxPool"], default=True),
    "SkipGroupNorm": channels_last(_skip_group_norm, default=True),
}
"""Operators of the domain com.microsoft."""
