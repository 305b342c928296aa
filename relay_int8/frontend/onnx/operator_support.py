"""Which ONNX operators can be imported, and what converts those that are converted here."""

from __future__ import annotations

import onnx
from tvm.relax.frontend.onnx import onnx_frontend

from relay_int8.frontend.onnx.converters import CONVERTERS
from relay_int8.frontend.onnx.functions import EXPANDED
from relay_int8.frontend.onnx.quantized import MICROSOFT, QUANTIZED

MS = "com.microsoft"
SEQUENCES = {
    "ConcatFromSequence",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "SplitToSequence",
}
"""Of lists of tensors: TVM's importer takes any operand for one, and no kernel here takes them."""
UNTRIMMED = {"NonMaxSuppression"}
"""TVM's importer gives as many rows as there could be, not those that there are."""
CONTRIB = {"FastGelu", "BiasGelu", "SkipLayerNormalization", "EmbedLayerNormalization"}

OURS = CONVERTERS | QUANTIZED | MICROSOFT

BRANCH = "If"
"""Exporters choose by a shape whether they squeeze; where shapes are static that is decided."""


def unsupported_nodes(graph: onnx.GraphProto) -> dict[str, list[str]]:
    """Return the operators that cannot be imported, each with the names of its nodes."""
    standard_ones = {*onnx_frontend._get_convert_map(), *CONVERTERS, *QUANTIZED, BRANCH}
    standard_ones -= CONTRIB | SEQUENCES | UNTRIMMED | EXPANDED
    known = {"": standard_ones - set(MICROSOFT), MS: CONTRIB | set(MICROSOFT)}
    missing: dict[str, list[str]] = {}
    for node in graph.node:
        if node.op_type not in known.get(node.domain.removeprefix("ai.onnx"), ()):
            operator_name = f"{node.domain}.{node.op_type}".removeprefix(".")
            missing.setdefault(operator_name, []).append(title_of(node))
    return missing


def title_of(node: onnx.NodeProto) -> str:
    """Return a node's name, or its first output's where it has none."""
    return str(node.name or node.output[0])
