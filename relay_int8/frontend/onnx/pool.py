"""ONNX's pooling by windows: TVM's importer pads otherwise where a mode says how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax

from relay_int8.frontend.onnx.auto_pad import window_padding
from relay_int8.graph.dataflow import shape


def pool(kind: str) -> Callable[[relax.BlockBuilder, list[Any], dict[str, Any]], relax.Expr]:
    """Return the converter of maxima ("max") or averages ("avg") over one to three axes."""

    def _convert(_: relax.BlockBuilder, inputs: list[Any], given: dict[str, Any]) -> relax.Expr:
        x, kernel = inputs[0], list(given["kernel_shape"])
        rank = len(shape(x)) - 2
        if len(kernel) != rank or not 1 <= rank <= 3:
            raise ValueError(f"its kernel {kernel} does not fit an input {list(shape(x))}")
        strides = list(given.get("strides", (1,) * rank))
        dilation = list(given.get("dilations", (1,) * rank))
        return getattr(relax.op.nn, f"{kind}_pool{rank}d")(
            x,
            kernel,
            strides,
            window_padding(given, shape(x)[2:], kernel, strides, dilation),
            dilation,
            ceil_mode=bool(given.get("ceil_mode", 0)),
            count_include_pad=bool(given.get("count_include_pad", 0)),
        )

    return _convert
