"""Read a model with constants of 2 and 4 bits as one with bytes.

No kernel reads smaller integers.

Before:  w = DequantizeLinear(int4 constant, scale, int4 zero point)
After:   w = DequantizeLinear(int8 constant, scale, int8 zero point)

Before:  q = QuantizeLinear(constant, scale, int4 zero point)
After:   q, an int8 constant

Before:  rows = GatherBlockQuantized(uint4 table, ids, scales)
After:   rows = GatherBlockQuantized(int8 table, ids, scales)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.onnx.nested import tensors_of
from relay_int8.frontend.onnx.node_form import title_of
from relay_int8.frontend.onnx.operators.constant_nodes import evaluate

BYTES = {
    TensorProto.INT2: np.int8,
    TensorProto.INT4: np.int8,
    TensorProto.UINT2: np.uint8,
    TensorProto.UINT4: np.uint8,
}
PACKED_TABLE = "GatherBlockQuantized"
"""Its uint8 tables have several elements a byte; those of int8 are read as those of uint4 are."""
OPSET_OF_4_BITS = 25
"""Whose QuantizeLinear has every type that a file may have."""


def unpack_integers(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return ``model`` with bytes; the model itself where no constant is smaller.

    Raises
    ------
    UnsupportedOpError
        If a tensor that is computed is quantized, or cast, to fewer than 8 bits.
    """
    if not any(tensor.data_type in BYTES for tensor in tensors_of(model)):
        return model
    unpacked = onnx.ModelProto()
    unpacked.CopyFrom(model)
    graph = unpacked.graph
    _quantize_constants(graph)
    tables = {node.input[0] for node in graph.node if node.op_type == PACKED_TABLE}
    for tensor in tensors_of(unpacked):
        if tensor.data_type in BYTES:
            kind = np.int8 if tensor.name in tables else BYTES[tensor.data_type]
            array = numpy_helper.to_array(tensor).astype(kind)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return unpacked


def _quantize_constants(graph: onnx.GraphProto) -> None:
    """Write what is quantized to fewer than 8 bits as constants."""
    known = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            known[node.output[0]] = node.attribute[0].t
    kept = []
    for node in graph.node:
        if node.op_type == "CastLike" and _kind(known.get(node.input[1])) in BYTES:
            raise UnsupportedOpError(
                f"node {title_of(node)} (CastLike) casts to fewer than 8 bits, which no "
                "kernel reads"
            )
        if node.op_type != "QuantizeLinear" or not _is_small(node, known):
            kept.append(node)
            continue
        if any(name and name not in known for name in node.input):
            raise UnsupportedOpError(
                f"node {title_of(node)} (QuantizeLinear) quantizes what the network computes to "
                "fewer than 8 bits; quantize activations to 8 bits, or give the float model"
            )
        graph.initializer.append(_quantized(node, known))
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
    del graph.node[:]
    graph.node.extend(nodes)


def _kind(tensor: TensorProto | None) -> int | None:
    return None if tensor is None else tensor.data_type


def _is_small(node: onnx.NodeProto, known: Mapping[str, TensorProto]) -> bool:
    zero = known.get(node.input[2]) if len(node.input) > 2 else None
    kinds = [attribute.i for attribute in node.attribute if attribute.name == "output_dtype"]
    return bool({*kinds, *([] if zero is None else [zero.data_type])} & BYTES.keys())


def _quantized(node: onnx.NodeProto, known: Mapping[str, TensorProto]) -> TensorProto:
    plain = onnx.NodeProto()
    plain.CopyFrom(node)
    plain.domain = ""
    arrays = [numpy_helper.to_array(known[name]) if name else None for name in node.input]
    (q,) = evaluate(plain, arrays, OPSET_OF_4_BITS)
    signed = np.iinfo(np.int8) if str(q.dtype).startswith("int") else np.iinfo(np.uint8)
    return numpy_helper.from_array(q.astype(signed.dtype), node.output[0])
