"""Run alone: import damaged ONNX files (see ``mutations.survive``).

::

    python -m tests.frontend.mutate_onnx FOLDER float|int8|boxes COUNT
"""

import random
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from relay_int8.frontend.onnx import import_onnx
from tests.frontend.mutations import ABSURD, BYTES, Mutation, edited, survive
from tests.onnx_models import BOXES_CHOSEN, BOXES_CHOSEN_BY, model

KINDS = sorted({schema.name for schema in onnx.defs.get_all_schemas()})


def network(kind: str) -> onnx.ModelProto:
    """Return a small network in which every kind of attribute occurs; int8 with Q/DQ pairs."""
    if kind == "boxes":
        return _detector()
    rng = np.random.default_rng(5)
    weights = {
        "w0": rng.normal(size=(8, 3, 3, 3)).astype("float32"),
        "b0": rng.normal(size=8).astype("float32"),
        "w1": rng.normal(size=(8, 1, 3, 3)).astype("float32"),
        "w2": rng.normal(size=(16, 4)).astype("float32"),
        "widths": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "sizes": np.array([1, 16, 12, 12]),
        "begin": np.array([1]),
        "end": np.array([11]),
        "axes": np.array([2]),
        "flat": np.array([1, -1]),
        "s": np.float32(0.05),
        "z": np.uint8(117),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Clip", ["c0"], ["r0"]),
        node("Conv", ["r0", "w1"], ["c1"], group=8, auto_pad="SAME_UPPER"),
        node("Add", ["c1", "r0"], ["a"]),
        node("LeakyRelu", ["a"], ["l"], alpha=0.1),
        node("Concat", ["l", "c1"], ["k"], axis=1),
        node("MaxPool", ["k"], ["p"], kernel_shape=[2, 2], strides=[1, 1], ceil_mode=1),
        node("Pad", ["p", "widths"], ["d"], mode="constant"),
        node("Resize", ["d", "", "", "sizes"], ["u"], mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric"),
        node("Slice", ["u", "begin", "end", "axes"], ["cut"]),
        node("Transpose", ["cut"], ["t"], perm=[0, 1, 3, 2]),
        node("ReduceMean", ["t"], ["m"], axes=[2, 3], keepdims=1),
        node("Reshape", ["m", "flat"], ["f"]),
        node("Gemm", ["f", "w2"], ["g"], alpha=0.5),
        node("Softmax", ["g"], ["y"], axis=1),
    ]  # fmt: skip
    if kind == "int8":
        nodes = [_quantized(entry) for entry in nodes]
        nodes = [entry for pair in nodes for entry in pair]
    return model(nodes, {"x": (1, 3, 9, 9)}, {"y": None}, weights, opset=17)


def _detector() -> onnx.ModelProto:
    """Return a network that suppresses boxes of high scores, and pads what is left to nine."""
    node = helper.make_node
    numbers = BOXES_CHOSEN_BY | {
        "zero": np.array(0), "last": np.array([-1]), "nine": np.array(9)
    }  # fmt: skip
    nodes = [
        node("Sigmoid", ["s"], ["scores"]),
        *BOXES_CHOSEN,
        node("Gather", ["rivals", "order"], ["boxes"], axis=0),
        node("Concat", ["boxes", "rivals"], ["all"], axis=0),
        node("Slice", ["all", "first", "twelve", "first"], ["some"]),
        node("Shape", ["order"], ["length"]),
        node("Gather", ["length", "zero"], ["number"]),
        node("Sub", ["nine", "number"], ["left"]),
        node("Unsqueeze", ["left", "first"], ["width"]),
        node("Concat", ["first", "first", "width", "first"], ["widths"], axis=0),
        node("Pad", ["boxes", "widths"], ["y"]),
    ]
    return model(nodes, {"x": (20, 4), "s": (20,)}, {"y": None, "some": None}, numbers)


def _quantized(entry: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Return a node with a Q/DQ pair behind it."""
    name = entry.output[0]
    if name == "y":
        return [entry]
    entry.output[0] = f"{name}_real"
    return [
        entry,
        helper.make_node("QuantizeLinear", [f"{name}_real", "s", "z"], [f"{name}_q"]),
        helper.make_node("DequantizeLinear", [f"{name}_q", "s", "z"], [name]),
    ]


def _number(rng: random.Random) -> int:
    value = rng.choice((*ABSURD, 2, 3, 5))
    return value - 2**64 if value >= 2**63 else value


def other_operator(rng: random.Random, proto: onnx.ModelProto) -> None:
    rng.choice(proto.graph.node).op_type = rng.choice(KINDS)


def other_inputs(rng: random.Random, proto: onnx.ModelProto) -> None:
    """Let a node read something else, or more, or less."""
    entry = rng.choice(proto.graph.node)
    names = [output for other in proto.graph.node for output in other.output]
    found = [
        *entry.input,
        rng.choice((*names, *(w.name for w in proto.graph.initializer), "", "none")),
    ]
    rng.shuffle(found)
    entry.input[:] = found[rng.randrange(3) :]


def other_attribute(rng: random.Random, proto: onnx.ModelProto) -> None:
    found = rng.choice([a for entry in proto.graph.node for a in entry.attribute])
    if found.ints and rng.random() < 0.7:
        found.ints[rng.randrange(len(found.ints))] = _number(rng)
    elif found.ints:
        found.ints.append(_number(rng))
    elif found.s:
        found.s = rng.choice((b"", b"\xff", b"SAME_LOWER", b"linear", b"reflect", b"edge"))
    elif found.type == onnx.AttributeProto.FLOAT:
        found.f = rng.choice((float("nan"), float("inf"), -1e30, 0.0))
    else:
        found.i = _number(rng)


def other_weights(rng: random.Random, proto: onnx.ModelProto) -> None:
    """Change the shape, the type or the values of an initializer."""
    found = rng.choice(proto.graph.initializer)
    what = rng.choice(("dims", "dims", "type", "values", "data"))
    if what == "dims" and found.dims:
        found.dims[rng.randrange(len(found.dims))] = _number(rng)
    elif what == "dims":
        found.dims.append(_number(rng))
    elif what == "type":
        found.data_type = rng.randrange(24)
    elif what == "data":
        found.raw_data = found.raw_data[: rng.randrange(len(found.raw_data) + 1)]
    elif found.data_type == onnx.TensorProto.INT64:
        values = numpy_helper.to_array(found).copy()
        values.flat[rng.randrange(values.size)] = _number(rng)
        found.CopyFrom(numpy_helper.from_array(values, found.name))


def other_input(rng: random.Random, proto: onnx.ModelProto) -> None:
    """Change what the graph says of its input or of its result."""
    found = rng.choice((*proto.graph.input, *proto.graph.output)).type.tensor_type
    if found.shape.dim and rng.random() < 0.7:
        rng.choice(found.shape.dim).dim_value = _number(rng)
    else:
        found.elem_type = rng.randrange(24)


MUTATIONS: tuple[Mutation, ...] = (
    *BYTES,
    *(
        edited(edit, onnx.load_model_from_string, onnx.ModelProto.SerializeToString)
        for edit in (other_operator, other_inputs, other_attribute, other_weights, other_input)
    ),
)


def main(folder: Path, kind: str, count: int) -> None:
    path = folder / "model.onnx"
    onnx.save(network(kind), path)
    survive(path, lambda: import_onnx(path), MUTATIONS, count)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
