"""Models of old opsets in operators of a newer one."""

from __future__ import annotations

import onnx

from relay_int8.errors import FrontendError, UnsupportedOpError
from relay_int8.frontend.onnx.contrib.experimental import set_apart
from relay_int8.frontend.onnx.operator_support import SCAN
from relay_int8.frontend.onnx.operators.resize_places import OLD_NEAREST
from relay_int8.frontend.onnx.rewrites.oldest_opsets import FIRST_PLAIN, to_opset_7

OLDEST_OPSET = 1
FIRST_IR_OF_CONSTANTS = 4  # until then an initializer was the default of an input
FIRST_SCAN = 9  # oldest opset whose Scan is one loop
PLAIN_OPSET = 13  # oldest opset whose operators TVM's importer reads as the standard says

CONVERSION_ERRORS = (
    RuntimeError,
    onnx.shape_inference.InferenceError,
    onnx.version_converter.ConvertError,
)
FIRST_WITH_COORDINATES = 11
OLD_RESIZE = [
    onnx.helper.make_attribute("coordinate_transformation_mode", "asymmetric"),
    onnx.helper.make_attribute("nearest_mode", OLD_NEAREST),
]
"""What Resize and Upsample did before they had these attributes; ONNX's converter leaves it out."""


def opset_of(model: onnx.ModelProto) -> int:
    """Version of the standard operators that a model uses."""
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    return int(versions[0]) if versions else 1


def to_plain_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    """Rewrite an old model in newer operators.

    TVM's importer reads the attributes of old Pad, Upsample, Dropout, ReduceSum and others as the
    newer standard has them; ONNX's own converter knows every such change.
    """
    opset, newest = opset_of(model), onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= opset <= newest:
        raise FrontendError(
            f"the model uses opset {opset}; opsets {OLDEST_OPSET} to {newest} can be read: "
            "export it again with one of these"
        )
    if opset >= PLAIN_OPSET:
        return model
    if opset < FIRST_PLAIN:
        model, opset = to_opset_7(model), FIRST_PLAIN
    if opset < FIRST_SCAN and any(node.op_type == SCAN for node in model.graph.node):
        raise UnsupportedOpError(
            f"a Scan of opset {opset} loops over each image; export the model with opset "
            f"{PLAIN_OPSET} or newer"
        )
    old = onnx.ModelProto()
    old.CopyFrom(set_apart(model))
    # With an older format the converter looks for every initializer among the inputs.
    old.ir_version = max(old.ir_version, FIRST_IR_OF_CONSTANTS)
    _normalize_channels(old.graph)
    try:
        plain = onnx.version_converter.convert_version(old, PLAIN_OPSET)
    except CONVERSION_ERRORS as err:
        raise FrontendError(
            f"the model uses opset {opset} and ONNX cannot convert it to {PLAIN_OPSET} ({err}); "
            f"export it again with opset {PLAIN_OPSET} or newer"
        ) from err
    if opset < FIRST_WITH_COORDINATES:
        for node in plain.graph.node:
            if node.op_type == "Resize":
                node.attribute.extend(OLD_RESIZE)
    _flatten_hardmax(plain.graph)
    return plain


def _normalize_channels(graph: onnx.GraphProto) -> None:
    """Remove ``spatial=0`` from batch norms whose statistics are one number for each channel.

    MXNet's exporter wrote it everywhere. It asks for statistics of each position, and ONNX's
    converter refuses it.
    """
    vectors = {array.name for array in graph.initializer if len(array.dims) == 1}
    for node in graph.node:
        if node.op_type == "BatchNormalization" and vectors.issuperset(node.input[1:]):
            kept = [attribute for attribute in node.attribute if attribute.name != "spatial"]
            del node.attribute[:]
            node.attribute.extend(kept)


def _flatten_hardmax(graph: onnx.GraphProto) -> None:
    """Take the largest of all axes from ``axis`` on, as Hardmax did before opset 13.

    ONNX's converter does this for Softmax, and leaves Hardmax as it is.
    """
    if not any(node.op_type == "Hardmax" for node in graph.node):
        return
    nodes: list[onnx.NodeProto] = []
    for node in map(onnx.NodeProto.FromString, [n.SerializeToString() for n in graph.node]):
        if node.op_type != "Hardmax":
            nodes.append(node)
            continue
        x, y = node.input[0], node.output[0]
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        rows, largest, size = (f"{y}/{step}" for step in ("rows", "largest", "size"))
        nodes += [
            onnx.helper.make_node("Flatten", [x], [rows], axis=axis),
            onnx.helper.make_node("Hardmax", [rows], [largest], node.name, axis=-1),
            onnx.helper.make_node("Shape", [x], [size]),
            onnx.helper.make_node("Reshape", [largest, size], [y]),
        ]
    del graph.node[:]
    graph.node.extend(nodes)
