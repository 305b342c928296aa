"""Which ONNX operators can be imported, and what converts those that are converted here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx
from tvm.relax.frontend.onnx import onnx_frontend

from relay_int8.frontend.importing import RANDOM_NUMBERS
from relay_int8.frontend.onnx.contrib.channels_last import CHANNELS_LAST
from relay_int8.frontend.onnx.contrib.classical import CLASSICAL
from relay_int8.frontend.onnx.contrib.detections import DOMAIN as TENSORRT
from relay_int8.frontend.onnx.contrib.detections import PLUGINS
from relay_int8.frontend.onnx.contrib.experimental import EXPERIMENTAL
from relay_int8.frontend.onnx.contrib.fused import FUSED
from relay_int8.frontend.onnx.contrib.fused_attention import ATTENTION
from relay_int8.frontend.onnx.contrib.grouped_attention import GROUPED
from relay_int8.frontend.onnx.contrib.rotary import ROTARY
from relay_int8.frontend.onnx.integers.quantized import MICROSOFT, QUANTIZED
from relay_int8.frontend.onnx.integers.quantized_text import QUANTIZED_TEXT
from relay_int8.frontend.onnx.integers.trained import DOMAINS, TRAINED
from relay_int8.frontend.onnx.integers.weight_only import WEIGHT_ONLY
from relay_int8.frontend.onnx.node_form import title_of
from relay_int8.frontend.onnx.operators.converters import CONVERTERS
from relay_int8.frontend.onnx.operators.sequences import SEQUENCES
from relay_int8.frontend.onnx.rewrites.functions import EXPANDED

MS = "com.microsoft"
RANDOM = (
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)
REASONS = {
    **dict.fromkeys(RANDOM, RANDOM_NUMBERS),
    "ai.onnx.ml.ZipMap": "it makes dictionaries; convert the model with zipmap=False",
}
"""Why an operator is not known, where there is more to say."""
COMPILED_PARTS = {"EPContext", "EtwExporter", "OpenVINO", "Snpe", "TRTEngineOp"}
SEARCHES = {"BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"}
TOKENS = {"PackedAttention", "PackedMultiHeadAttention", "RemovePadding", "RestorePadding"}
BLOCKED = "com.microsoft.nchwc."
"""Domain of operators on images in blocks of channels."""
CONTRIB = (
    CHANNELS_LAST | FUSED | ATTENTION | GROUPED | MICROSOFT | QUANTIZED_TEXT | ROTARY | WEIGHT_ONLY
)
"""Operators of com.microsoft."""
STANDARD_TOO = {"Gelu", "SimplifiedLayerNormalization"}
"""Those that have the name of a standard operator, or that ONNX Runtime writes as one."""
TWINS = {"DequantizeLinear", "GridSample", "QLinearConv", "QuantizeLinear", "Trilu"}
"""Operators of com.microsoft that are standard ones, of types or layouts that these lack."""

OURS = CONVERTERS | EXPERIMENTAL | QUANTIZED | CONTRIB | CLASSICAL | TRAINED | PLUGINS

BRANCH = "If"
"""Exporters choose by a shape whether they squeeze; where shapes are static that is decided."""
LOOP = "Loop"
"""Its runs are written out; how many there are must be known."""
SCAN = "Scan"
"""A loop over the slices of tensors, written out too."""


def unsupported_nodes(graph: onnx.GraphProto) -> dict[str, list[str]]:
    """Return the operators that cannot be imported, each with the names of its nodes."""
    standard_ones = {*onnx_frontend._get_convert_map(), *CONVERTERS, *EXPERIMENTAL, *QUANTIZED}
    standard_ones |= {BRANCH, LOOP, SCAN}
    standard_ones = (standard_ones - EXPANDED - CONTRIB.keys()) | SEQUENCES.keys()
    standard_ones |= PLUGINS.keys() | STANDARD_TOO
    known = {
        "": standard_ones,
        TENSORRT: set(PLUGINS),
        MS: CONTRIB.keys() | TWINS,
        ".ml": set(CLASSICAL),
    }
    known |= {domain: set(TRAINED) for domain in DOMAINS}
    missing: dict[str, list[str]] = {}
    for node in graph.node:
        if node.op_type not in known.get(node.domain.removeprefix("ai.onnx"), ()):
            missing.setdefault(_named(node), []).append(title_of(node))
    return missing


def reasons(missing: Iterable[str]) -> dict[str, str]:
    """Return why operators are not known, and what to do, as far as there is more to say."""
    found = {name: REASONS[name] for name in missing if name in REASONS}
    for name in missing:
        if name.startswith((BLOCKED, "com.ms.internal.nhwc.")) or name == f"{MS}.NhwcFusedConv":
            found[name] = (
                "its layout is that of the computer on which ONNX Runtime optimized the model; "
                "save it with ORT_ENABLE_EXTENDED, not ORT_ENABLE_ALL or ORT_ENABLE_LAYOUT"
            )
        elif name.removeprefix(f"{MS}.") in COMPILED_PARTS:
            found[name] = "a part that another tool compiled; give the model before that"
        elif name.removeprefix(f"{MS}.") in SEARCHES:
            found[name] = (
                "a loop that ends by values; give the encoder and the decoder, each as a model"
            )
        elif name.removeprefix(f"{MS}.") in TOKENS:
            found[name] = (
                "how many tokens it keeps depends on the mask; give the model before it was "
                "converted to packing mode"
            )
    return found


def nodes_of(graph: onnx.GraphProto, operators: Mapping[str, object]) -> list[onnx.NodeProto]:
    """Return the nodes of some operators."""
    return [node for node in graph.node if _named(node) in operators]


def _named(node: onnx.NodeProto) -> str:
    return f"{node.domain}.{node.op_type}".removeprefix(".")
