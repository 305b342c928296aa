"""ONNX's TopK, of the types that TVM sorts."""

from __future__ import annotations

from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from relay_int8.graph.dataflow import dtype

SORTED = ("float16", "float32", "float64", "int8", "int32", "int64", "uint8")
"""Types that TVM 0.27 sorts."""


def top_k(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Return the largest or smallest elements along an axis, and where they are."""
    kind = dtype(inputs[0])
    if kind not in SORTED:
        raise NotImplementedError(f"it sorts {kind}; only {', '.join(SORTED)} are read")
    version = 11 if len(inputs) > 1 else 1
    convert = getattr(onnx_frontend.TopK, f"_impl_v{version}")
    return convert(bb, inputs, attributes, [{}, {}])
