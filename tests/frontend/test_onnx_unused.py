"""Nodes of an ONNX model are read in any order, and what no output is computed from is left out."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from relay_int8.errors import ConfigError, FrontendError, UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from tests.onnx_models import assert_close, model, run_relax

pytestmark = pytest.mark.fast
X = np.random.default_rng(0).normal(size=(2, 4)).astype("float32")
W = np.random.default_rng(1).normal(size=(4, 4)).astype("float32")
node = helper.make_node


def dense(**weights: np.ndarray) -> onnx.ModelProto:
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("Relu", ["p"], ["y"])]
    return model(nodes, {"x": X.shape}, {"y": None}, {"w": W, **weights})


def assert_dense(proto: onnx.ModelProto, *others: np.ndarray) -> None:
    before = proto.SerializeToString(deterministic=True)
    found = run_relax(import_onnx(proto), X, *others)[0]
    np.testing.assert_allclose(found, np.maximum(X @ W, 0), rtol=1e-5, atol=1e-6)
    assert proto.SerializeToString(deterministic=True) == before


def test_operators_behind_a_cut():
    """Those behind an output that was named anew cannot be imported, and need not be."""
    proto = dense(threshold=np.array([np.nan, 1], "float32"))
    proto.graph.node.extend(
        [node("NonZero", ["y"], ["places"]), node("Scale", ["places", "threshold"], ["boxes"])]
    )
    assert_dense(proto)


def test_constants_that_nothing_reads():
    """A text, and weights that are no numbers."""
    proto = dense(broken=np.array([np.nan, 1], "float32"))
    proto.graph.initializer.append(helper.make_tensor("text", TensorProto.STRING, [1], [b"cat"]))
    assert_dense(proto)


def test_an_old_file_lists_its_weights_as_inputs():
    """One that nothing reads is no input for data; an input that nothing reads stays one."""
    proto = dense(spare=W)
    for name in ("w", "spare", "mask"):
        proto.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, W.shape))
    assert_dense(proto, W)


def test_what_a_branch_reads_is_kept():
    branches = [
        helper.make_graph(
            [node(op, ["p"], ["b"])],
            "branch",
            [],
            [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)],
        )
        for op in ("Relu", "Exp")
    ]
    chosen = node("If", ["yes"], ["y"], then_branch=branches[0], else_branch=branches[1])
    nodes = [node("MatMul", ["x", "w"], ["p"]), chosen, node("NonZero", ["x"], ["places"])]
    proto = model(nodes, {"x": X.shape}, {"y": None}, {"w": W})
    proto.graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
    assert_dense(proto)


def test_nodes_in_any_order():
    """Tools that convert to float16 append the casts of inputs; ONNX Runtime sorts nodes too."""
    proto = dense()
    proto.graph.node.reverse()
    assert_dense(proto)


def test_a_branch_that_stands_in_front_of_what_it_reads():
    branch = helper.make_graph(
        [node("Relu", ["p"], ["b"])],
        "branch",
        [],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)],
    )
    chosen = node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch)
    proto = model(
        [chosen, node("MatMul", ["x", "w"], ["p"])], {"x": X.shape}, {"y": None}, {"w": W}
    )
    proto.graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
    assert_dense(proto)


def test_nodes_in_a_circle():
    proto = model(
        [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])], {"x": X.shape}, {"a": None}
    )
    with pytest.raises(FrontendError, match="nothing computes"):
        import_onnx(proto)


def suppressed() -> onnx.ModelProto:
    """Return a network that ends in an operator that is not read."""
    nodes = [
        helper.make_node("Relu", ["x"], ["boxes"]),
        helper.make_node("Sigmoid", ["boxes"], ["scores"]),
        helper.make_node("SoftSuppression", ["boxes", "scores"], ["kept"], "nms"),
    ]
    return model(nodes, {"x": (1, 1, 4)}, {"kept": None})


def test_outputs_that_a_user_names_cut_the_network():
    mod = import_onnx(suppressed(), outputs=["scores", "boxes"])
    x = np.array([[[-1, 0, 1, 2]]], "float32")
    scores, boxes = run_relax(mod, x)
    np.testing.assert_array_equal(boxes, np.maximum(x, 0))
    assert_close([scores], [1 / (1 + np.exp(-boxes))])


def test_the_message_says_where_to_cut():
    """Scores follow from boxes."""
    with pytest.raises(UnsupportedOpError, match=r"\(ImportOptions\(outputs=\['boxes'\]\)\)"):
        import_onnx(suppressed())


def detector() -> onnx.ModelProto:
    """Return a network that keeps the boxes of each class whose scores are above a threshold."""
    nodes = [
        node("MatMul", ["x", "w"], ["boxes"]),
        node("MatMul", ["x", "w"], ["logits"]),
        node("Softmax", ["logits"], ["scores"]),
        node("Relu", ["logits"], ["other"]),
        node("Shape", ["boxes"], ["shape"]),
    ]
    for i in ("0", "1"):
        nodes += [
            node("Gather", ["scores", f"class{i}"], [f"score{i}"], axis=1),
            node("Greater", [f"score{i}", "threshold"], [f"mask{i}"]),
            node("NonZero", [f"mask{i}"], [f"row{i}"], f"nonzero{i}"),
            node("GatherND", ["boxes", f"row{i}"], [f"kept{i}"], batch_dims=0),
            node("Div", [f"kept{i}", "shape"], [f"part{i}"]),
        ]
    constants = {f"class{i}": np.array(i) for i in (0, 1)} | {"threshold": np.float32(0.5)}
    outputs = {"part0": None, "part1": None, "other": None}
    return model(nodes, {"x": X.shape}, outputs, {"w": W, **constants})


def test_a_detector_is_cut_behind_its_heads():
    """Not at the mask, nor at the scores of each class: what follows reads boxes too."""
    points = r"outputs=\['boxes', 'scores', 'other'\]"
    with pytest.raises(UnsupportedOpError, match=f"kept0 .* make outputs of .*{points}"):
        import_onnx(detector())
    mod = import_onnx(detector(), outputs=["boxes", "scores", "other"])
    boxes, scores, other = run_relax(mod, X)
    assert_close([boxes, other], [X @ W, np.maximum(X @ W, 0)])
    assert scores.shape == boxes.shape


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (["score"], r"outputs=\['score'\]\): the file computes no such tensor; near it: scores"),
        (["x"], r"outputs=\['x'\]\): the file computes no such tensor"),
        (["boxes", "boxes"], r"outputs=\['boxes', 'boxes'\]\): a tensor is named twice"),
    ],
)
def test_outputs_that_no_node_gives(outputs: list[str], message: str):
    with pytest.raises(ConfigError, match=message):
        import_onnx(suppressed(), outputs=outputs)
