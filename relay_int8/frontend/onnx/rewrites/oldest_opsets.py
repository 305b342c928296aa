"""Read a model of opsets 1 to 6 as one of opset 7.

    Before:  y = Add(x, b, broadcast=1, axis=1);  z = Reshape(y, shape=[1, -1])
    After:   y = Add(x, Aligned(b, x, axis=1));   z = Reshape(y, [1, -1])

Converters of Caffe2, CNTK and Core ML wrote these opsets in 2017 and 2018. ONNX's own converter
broadcasts along a wrong axis from them. ``Aligned`` is an operator of ours: how many axes follow is
known where shapes are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import onnx
from onnx import helper, numpy_helper

from relay_int8.errors import FrontendError, UnsupportedOpError
from relay_int8.frontend.onnx.contrib.experimental import DOMAIN
from relay_int8.frontend.onnx.node_form import title_of

FIRST_PLAIN = 7
BROADCAST = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
DROPPED = ("consumed_inputs", "is_test", "output_sequence")
"""Attributes that say how a runtime computes, and that a newer standard lacks."""

Nodes = list[onnx.NodeProto]
Attributes = dict[str, onnx.AttributeProto]


def to_opset_7(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model of an older opset in operators of opset 7."""
    new = onnx.ModelProto()
    new.CopyFrom(model)
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in new.graph.initializer}
    nodes: Nodes = []
    for node in map(_copied, model.graph.node):
        if node.domain not in ("", "ai.onnx"):
            nodes.append(node)
            continue
        try:
            nodes += _converted(node, new.graph, known)
        except (IndexError, KeyError, ValueError) as error:
            raise FrontendError(
                f"node {title_of(node)} ({node.op_type}) of an opset before {FIRST_PLAIN} lacks an "
                f"operand or an attribute, or has an unknown one ({error}): export the model anew"
            ) from error
    del new.graph.node[:]
    new.graph.node.extend(nodes)
    del new.opset_import[:]
    others = [entry for entry in model.opset_import if entry.domain not in ("", "ai.onnx")]
    new.opset_import.extend(
        [helper.make_opsetid("", FIRST_PLAIN), *others, helper.make_opsetid(DOMAIN, 1)]
    )
    return new


def _converted(
    node: onnx.NodeProto, graph: onnx.GraphProto, known: dict[str, np.ndarray]
) -> Iterable[onnx.NodeProto]:
    """Return what a node is in opset 7: itself, changed, behind what it needs."""
    given = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type == "Constant":
        known[node.output[0]] = numpy_helper.to_array(given["value"].t)
    _keep(node, [name for name in given if name not in DROPPED])
    if node.op_type in BROADCAST:
        return _broadcast(node, given)
    if node.op_type == "PRelu":  # one slope a channel; later it is broadcast as NumPy does
        return _aligned(node, 1)
    if node.op_type in CHANGES:
        CHANGES[node.op_type](node, given, graph, known)
    return [node]


def _broadcast(node: onnx.NodeProto, given: Attributes) -> Nodes:
    _keep(node, [name for name in given if name not in ("axis", "broadcast", *DROPPED)])
    if "axis" not in given or not ("broadcast" in given and given["broadcast"].i):
        return [node]
    return _aligned(node, given["axis"].i)


def _aligned(node: onnx.NodeProto, axis: int) -> Nodes:
    """Let the axes of the second operand begin at an axis of the first."""
    x, operand = node.input[:2]
    name = f"{node.output[0]}/aligned"
    node.input[1] = name
    return [helper.make_node("Aligned", [operand, x], [name], domain=DOMAIN, axis=axis), node]


Change = Callable[
    [onnx.NodeProto, Attributes, onnx.GraphProto, dict[str, np.ndarray]],
    None,
]


def _batch_norm(node: onnx.NodeProto, *_: object) -> None:
    """Leave out statistics of a batch, which a network in use does not compute."""
    del node.output[1:]


def _cast(node: onnx.NodeProto, given: Attributes, *_: object) -> None:
    """Write the type as a number; it was a name."""
    kind = given["to"]
    if kind.type == onnx.AttributeProto.STRING:
        number = onnx.TensorProto.DataType.Value(kind.s.decode().upper())
        _replace(node, to=number)


def _concat(node: onnx.NodeProto, given: Attributes, *_: object) -> None:
    if "axis" not in given:
        _replace(node, axis=1)


def _gemm(node: onnx.NodeProto, given: Attributes, *_: object) -> None:
    _keep(node, [name for name in given if name not in ("broadcast", *DROPPED)])


def _pad(node: onnx.NodeProto, given: Attributes, *_: object) -> None:
    if "paddings" in given:
        _keep(node, [name for name in given if name != "paddings"])
        _replace(node, pads=list(given["paddings"].ints))


def _reshape(
    node: onnx.NodeProto, given: Attributes, graph: onnx.GraphProto, _: object = None
) -> None:
    """Make an operand of the shape."""
    if "shape" not in given:
        return
    name = f"{node.output[0]}/shape"
    sizes = np.array(given["shape"].ints, "int64")
    graph.initializer.append(numpy_helper.from_array(sizes, name))
    _keep(node, [])
    node.input.append(name)


def _split(
    node: onnx.NodeProto, given: Attributes, _: onnx.GraphProto, known: dict[str, np.ndarray]
) -> None:
    """Make an attribute of the sizes, which could be an operand."""
    if len(node.input) < 2:
        return
    if node.input[1] not in known:
        raise UnsupportedOpError(f"node {title_of(node)} (Split) has sizes that are computed")
    _replace(node, split=known[node.input.pop()].reshape(-1).astype(int).tolist())


def _upsample(node: onnx.NodeProto, given: Attributes, *_: object) -> None:
    """Write the scales of all axes."""
    if "scales" in given:
        return
    scales = [1.0, 1.0, given["height_scale"].f, given["width_scale"].f]
    _keep(node, ["mode"])
    _replace(node, scales=scales)


CHANGES: dict[str, Change] = {
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Concat": _concat,
    "Gemm": _gemm,
    "Pad": _pad,
    "Reshape": _reshape,
    "Split": _split,
    "Upsample": _upsample,
}


def _copied(node: onnx.NodeProto) -> onnx.NodeProto:
    return onnx.NodeProto.FromString(node.SerializeToString())


def _keep(node: onnx.NodeProto, names: Iterable[str]) -> None:
    """Leave only attributes of these names."""
    kept = [attribute for attribute in node.attribute if attribute.name in set(names)]
    del node.attribute[:]
    node.attribute.extend(kept)


def _replace(node: onnx.NodeProto, **values: object) -> None:
    """Write attributes anew."""
    _keep(node, [attribute.name for attribute in node.attribute if attribute.name not in values])
    node.attribute.extend(helper.make_attribute(name, value) for name, value in values.items())
