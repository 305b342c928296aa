"""Composite operators (Attention, RotaryEmbedding, ...) against ONNX's reference implementation."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import calls, operator
from tests.onnx_models import assert_close, run_relax

RNG = np.random.default_rng(0)


def f32(*shape):
    return RNG.normal(size=shape).astype("float32")


def one_node(op, arrays, *, outputs=("y",), opset=23, constants=(), **attributes):
    """Return a model of one node; ``arrays`` maps its operands to values, "" leaves one out."""
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in arrays.items()
        if array is not None and name not in constants
    ]
    operands = ["" if array is None else name for name, array in arrays.items()]
    graph = helper.make_graph(
        [helper.make_node(op, operands, list(outputs), "node", **attributes)],
        "graph",
        infos,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs if name],
        [onnx.numpy_helper.from_array(arrays[name], name) for name in constants],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def check(op, arrays, **how):
    """Compare a node with the reference; return the operators that are left of it."""
    proto = one_node(op, arrays, **how)
    given = {info.name: arrays[info.name] for info in proto.graph.input}
    expected = ReferenceEvaluator(proto).run(None, given)
    mod = normalize()(import_onnx(proto))
    assert_close(run_relax(mod, *given.values()), expected)
    return [operator(value) for _, value in calls(mod["main"])]


Q, K, V = f32(2, 4, 5, 8), f32(2, 4, 6, 8), f32(2, 4, 6, 7)
SOME = RNG.uniform(size=(5, 6)) < 0.7
SOME[2] = False
ATTENTIONS = {
    "plain": ({"q": Q, "k": K, "v": V}, {}),
    "scaled": ({"q": Q, "k": K, "v": V}, {"scale": 0.3}),
    "causal": ({"q": Q, "k": K, "v": V}, {"is_causal": 1}),
    "additive mask": ({"q": Q, "k": K, "v": V, "mask": f32(5, 6)}, {}),
    "boolean mask": ({"q": Q, "k": K, "v": V, "mask": SOME}, {}),
    "capped": ({"q": Q, "k": K, "v": V}, {"softcap": 2.0}),
    "grouped": ({"q": f32(2, 8, 5, 8), "k": K, "v": V}, {}),
    "three dimensions": (
        {"q": f32(2, 5, 32), "k": f32(2, 6, 16), "v": f32(2, 6, 16)},
        {"q_num_heads": 4, "kv_num_heads": 2},
    ),
    "past": (
        {"q": Q, "k": K, "v": V, "mask": None, "pk": f32(2, 4, 3, 8), "pv": f32(2, 4, 3, 7)},
        {"is_causal": 1, "outputs": ("y", "key", "value")},
    ),
    "scores too": (
        {"q": Q, "k": K, "v": V},
        {"outputs": ("y", "", "", "scores"), "qk_matmul_output_mode": 0},
    ),
}


@pytest.mark.parametrize("case", ATTENTIONS)
def test_attention(case):
    arrays, attributes = ATTENTIONS[case]
    check("Attention", arrays, **attributes)


def test_nothing_is_left_of_a_mask_that_is_not_there():
    found = check("Attention", {"q": Q, "k": K, "v": V})
    assert not {"where", "add", "equal"} & set(found), found


def test_a_constant_mask_is_one_addition():
    arrays = {"q": Q, "k": K, "v": V, "mask": np.tril(np.ones((5, 6), bool))}
    found = check("Attention", arrays, constants=("mask",), is_causal=1)
    assert not {"where", "equal", "less"} & set(found), found
    assert found.count("add") == 1


def test_a_computed_mask_is_read_once():
    """Which rows are hidden is asked of the softmax, so that attention is one operator."""
    found = check("Attention", {"q": Q, "k": K, "v": V, "mask": SOME})
    assert found.count("where") == 2 and found.count("isnan") == 1
    assert not {"equal", "less", "min", "max"} & set(found), found


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("width", [0, 4])
def test_rotary_embedding(interleaved, width):
    half = (width or 8) // 2
    arrays = {"x": f32(2, 4, 5, 8), "cos": f32(2, 5, half), "sin": f32(2, 5, half)}
    check("RotaryEmbedding", arrays, interleaved=interleaved, rotary_embedding_dim=width)


def test_rotary_embedding_at_positions():
    places = RNG.integers(0, 10, (2, 5))
    arrays = {"x": f32(2, 5, 32), "cos": f32(10, 4), "sin": f32(10, 4), "places": places}
    check("RotaryEmbedding", arrays, constants=("cos", "sin"), num_heads=4)


@pytest.mark.parametrize("attributes", [{}, {"alpha": 1.5}], ids=["default", "alpha"])
def test_swish(attributes):
    check("Swish", {"x": f32(2, 5)}, opset=24, **attributes)


@pytest.mark.parametrize("axis", [-1, 1])
def test_root_mean_square_normalization(axis):
    x = f32(2, 3, 4)
    check("RMSNormalization", {"x": x, "scale": f32(*x.shape[axis:])}, axis=axis, epsilon=1e-3)


def test_the_attention_of_another_domain_is_refused():
    proto = one_node("Attention", {"x": f32(1, 4, 8), "w": f32(8, 24)}, num_heads=2)
    proto.graph.node[0].domain = "my.domain"
    proto.opset_import.append(helper.make_opsetid("my.domain", 1))
    with pytest.raises(UnsupportedOpError, match=r"my.domain.Attention \(node\)"):
        import_onnx(proto)


def test_weights_are_kept_beside():
    w = f32(64, 64)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["q"]),
        helper.make_node("Attention", ["q", "q", "q"], ["y"], q_num_heads=4, kv_num_heads=4),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 5, 64))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    before, x = proto.SerializeToString(), f32(1, 5, 64)
    mod = import_onnx(proto)
    assert [param.name for param in mod["main"].params] == ["x"]
    assert proto.SerializeToString() == before
    assert_close(run_relax(mod, x), ReferenceEvaluator(proto).run(None, {"x": x}))
