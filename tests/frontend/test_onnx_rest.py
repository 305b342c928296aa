"""What lies behind a cut is a model of its own; front and rest together give what the model gives."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from relay_int8.errors import ConfigError, FrontendError, UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.frontend.onnx.cut_points import cut_points
from relay_int8.frontend.onnx.rest import rest_of
from relay_int8.frontend.onnx.rewrites.unused import cut_at
from relay_int8.notices import Notice
from tests.onnx_models import assert_close, model, run_relax

pytestmark = pytest.mark.fast
rng = np.random.default_rng(0)
IMAGE = rng.normal(size=(1, 2, 6, 6)).astype("float32")
node = helper.make_node
CUT = ("boxes", "scores")


def integers(values: list[int]) -> np.ndarray:
    return np.array(values, "int64")


def detector() -> onnx.ModelProto:
    """Boxes and scores of each pixel, of which a suppression keeps some; the size of the image."""
    nodes = [
        node("Conv", ["image", "w"], ["box_maps"]),
        node("Conv", ["image", "v"], ["score_maps"]),
        node("Reshape", ["box_maps", "box_shape"], ["turned"]),
        node("Transpose", ["turned"], ["boxes"], perm=[0, 2, 1]),
        node("Reshape", ["score_maps", "score_shape"], ["logits"]),
        node("Sigmoid", ["logits"], ["scores"]),
        node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "least"], ["kept"]),
        node("Gather", ["kept", "last"], ["places"], axis=1),
        node("Gather", ["boxes", "places"], ["chosen"], axis=1),
        node("Shape", ["image"], ["size"]),
        node("Identity", ["logits"], ["raw"]),
    ]
    weights = {
        "w": rng.normal(size=(4, 2, 1, 1)).astype("float32"),
        "v": rng.normal(size=(1, 2, 1, 1)).astype("float32"),
        "box_shape": integers([1, 4, 36]),
        "score_shape": integers([1, 1, 36]),
        "most": integers([20]),
        "iou": np.array([0.4], "float32"),
        "least": np.array([0.5], "float32"),
        "last": integers([2]),
    }
    outputs = dict.fromkeys(("kept", "chosen", "size", "scores", "raw"))
    return model(nodes, {"image": IMAGE.shape}, outputs, weights)


def run(proto: onnx.ModelProto, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    names = [value.name for value in proto.graph.output]
    return dict(zip(names, ReferenceEvaluator(proto).run(None, inputs), strict=True))


def test_the_front_and_the_rest_are_the_whole():
    proto = detector()
    before = proto.SerializeToString(deterministic=True)
    whole = run(proto, image=IMAGE)
    cut = (*CUT, "logits")
    front = dict(zip(cut, run_relax(import_onnx(proto, outputs=cut), IMAGE), strict=True))
    rest = rest_of(proto, cut)
    assert [value.name for value in rest.graph.input] == [*cut, "image"]
    assert {tensor.name for tensor in rest.graph.initializer} == {"most", "iou", "least", "last"}
    found = run(rest, **front, image=IMAGE)
    assert list(found) == ["kept", "chosen", "size", "raw"]
    assert 1 < len(found["kept"]) < 36
    for name, value in found.items():
        assert_close(value, whole[name])
    assert_close(front["scores"], whole["scores"])
    assert proto.SerializeToString(deterministic=True) == before


def test_the_tensors_that_a_refusal_names_are_such_a_cut():
    proto = detector()
    del proto.graph.output[2:]
    suppression = next(n for n in proto.graph.node if n.op_type == "NonMaxSuppression")
    suppression.input[2] = ""
    with pytest.raises(UnsupportedOpError, match="it keeps no box"):
        import_onnx(proto)
    assert cut_points(proto, [suppression]) == CUT
    rest = rest_of(proto, CUT)
    assert [value.name for value in rest.graph.input] == list(CUT)
    assert [n.op_type for n in rest.graph.node] == ["NonMaxSuppression", "Gather", "Gather"]


def test_a_branch_of_the_rest_reads_a_tensor_of_the_cut():
    zero = helper.make_tensor("zero", TensorProto.FLOAT, [], [0])
    branches = [
        helper.make_graph(
            [node(op, ["h", "zero"], [f"{op}_y"])],
            op,
            [],
            [helper.make_tensor_value_info(f"{op}_y", TensorProto.FLOAT, None)],
            [zero],
        )
        for op in ("Max", "Min")
    ]
    nodes = [
        node("Neg", ["x"], ["h"]),
        node("ReduceSum", ["h"], ["sum"], keepdims=0),
        node("Cast", ["sum"], ["is_any"], to=TensorProto.BOOL),
        node("If", ["is_any"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    proto = model(nodes, {"x": (4,)}, {"y": None})
    rest = rest_of(proto, ["h"])
    assert [value.name for value in rest.graph.input] == ["h"]
    x = np.array([1, -2, 3, -4], "float32")
    np.testing.assert_array_equal(run(rest, h=-x)["y"], run(proto, x=x)["y"])


def test_a_node_gives_a_tensor_of_the_cut_and_another_one():
    """The rest computes the other one; it does not compute again what it is given."""
    nodes = [
        node("Split", ["x", "parts"], ["a", "b"], axis=1),
        node("Add", ["a", "b"], ["y"]),
    ]
    proto = model(nodes, {"x": (1, 4)}, {"y": None}, {"parts": integers([2, 2])})
    rest = rest_of(proto, ["a"])
    x, a = rng.normal(size=(1, 4)).astype("float32"), np.full((1, 2), 10, "float32")
    np.testing.assert_array_equal(run(rest, a=a, x=x)["y"], a + x[:, 2:])


def test_products_that_a_cut_leaves_in_the_rest():
    proto = detector()
    del proto.graph.output[2:]
    with pytest.warns(Notice, match=r"cut: 1, the last one gives score_maps; .*'boxes', \.\.\.\]"):
        rest = rest_of(proto, ["boxes"])
    x, boxes = IMAGE, run(cut_at(proto, ["boxes"]), image=IMAGE)["boxes"]
    for name, value in run(rest, boxes=boxes, image=x).items():
        np.testing.assert_array_equal(value, run(proto, image=x)[name])


def test_refusals():
    proto = detector()
    with pytest.raises(ConfigError, match="the file computes no such tensor; near it: boxes"):
        rest_of(proto, ["boxs"])
    with pytest.raises(ConfigError, match="no output of the model lies behind them"):
        rest_of(proto, [value.name for value in proto.graph.output])
    unknown = model(
        [node("Own", ["x"], ["h"], domain="ours"), node("Relu", ["h"], ["y"])],
        {"x": (1,)},
        {"y": None},
    )
    unknown.opset_import.append(helper.make_opsetid("ours", 1))
    with pytest.raises(FrontendError, match="the type of tensor h cannot be inferred"):
        rest_of(unknown, ["h"])


def test_the_front_has_the_same_cut():
    assert [v.name for v in cut_at(detector(), CUT).graph.output] == list(CUT)
