"""ONNX's pooling by windows: TVM's importer pads otherwise where a mode says how."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from relay_int8.frontend.max_indices import Windows, max_indices
from relay_int8.frontend.onnx.operators.auto_pad import window_padding
from relay_int8.frontend.onnx.operators.converter import Converter
from relay_int8.graph.dataflow import shape

COLUMNS_FIRST = 1
"""The ``storage_order`` of a MaxPool that counts its indices column by column."""


def pool(kind: str) -> Converter:
    """Return the converter of maxima ("max") or averages ("avg") over one to three axes."""

    def _convert(bb: relax.BlockBuilder, inputs: list[Any], given: dict[str, Any]) -> relax.Expr:
        x, kernel = inputs[0], list(given["kernel_shape"])
        rank = len(shape(x)) - 2
        if len(kernel) != rank or not 1 <= rank <= 3:
            raise ValueError(f"its kernel {kernel} does not fit an input {list(shape(x))}")
        strides = list(given.get("strides", (1,) * rank))
        dilation = list(given.get("dilations", (1,) * rank))
        padding = window_padding(given, shape(x)[2:], kernel, strides, dilation)
        y = getattr(relax.op.nn, f"{kind}_pool{rank}d")(
            x,
            kernel,
            strides,
            padding,
            dilation,
            ceil_mode=bool(given.get("ceil_mode", 0)),
            count_include_pad=bool(given.get("count_include_pad", 0)),
        )
        if given["tvm_custom"]["num_outputs"] == 1:
            return y
        y = bb.emit(y)
        windows = Windows(
            sizes=shape(y)[2:],
            kernel=kernel,
            strides=strides,
            before=padding[:rank],
            dilation=dilation,
            steps=_steps(shape(x)[2:], given.get("storage_order", 0)),
        )
        in_image = max_indices(lambda _, value: bb.emit(value), x, windows)
        return relax.Tuple([y, _in_tensor(bb, x, in_image)])

    return _convert


def max_unpool(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Put maxima back where their indices say, zeros elsewhere."""
    x, indices, *rest = inputs
    if any(given is not None for given in rest):
        raise NotImplementedError(
            "it has an output_shape, but its indices count pixels of the shape without it"
        )
    return onnx_frontend.MaxUnpool._impl_v9(bb, [x, indices, None], attributes, [{}, {}])


def _steps(sizes: tuple[int, ...], order: int) -> list[int]:
    """Return by how much an index grows along each axis of an image."""
    rank = len(sizes)
    if order == COLUMNS_FIRST:
        return [math.prod(sizes[:axis]) for axis in range(rank)]
    return [math.prod(sizes[axis + 1 :]) for axis in range(rank)]


def _in_tensor(bb: relax.BlockBuilder, x: relax.Expr, in_image: relax.Expr) -> relax.Expr:
    """Return indices in a whole tensor: images and channels before one's own are counted too."""
    n, c, *sizes = shape(x)
    before = np.arange(n * c).reshape(n, c, *(1 for _ in sizes)) * math.prod(sizes)
    in_image = bb.emit(in_image)
    return relax.op.add(in_image, relax.const(before, "int64"))


def global_max_pool(_: relax.BlockBuilder, inputs: list[Any], __: dict[str, Any]) -> relax.Expr:
    """Take the maximum of each channel."""
    return relax.op.max(inputs[0], list(range(2, len(shape(inputs[0])))), keepdims=True)
