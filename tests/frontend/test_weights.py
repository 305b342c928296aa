"""Infinite constants: masks are legal, weights and biases of layers are not."""

import numpy as np
import onnx
import pytest
from onnx import helper

from relay_int8 import compile_model, load
from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import FrontendError
from relay_int8.frontend.onnx import import_onnx
from tests.onnx_models import assert_close, model, run_onnx, run_relax

node = helper.make_node
RNG = np.random.default_rng(0)
W = RNG.normal(size=(8, 8)).astype("float32")
MASK = np.triu(np.full((4, 4), -np.inf, "float32"), 1)
X = RNG.normal(size=(1, 4, 8)).astype("float32")
ATTENTION = [
    node("MatMul", ["x", "w"], ["q"]),
    node("Transpose", ["q"], ["k"], perm=[0, 2, 1]),
    node("MatMul", ["q", "k"], ["scores"]),
    node("Add", ["scores", "mask"], ["masked"]),
    node("Softmax", ["masked"], ["p"]),
    node("MatMul", ["p", "q"], ["y"]),
]


def test_a_mask_is_infinite(tmp_path):
    proto = model(ATTENTION, {"x": X.shape}, {"y": None}, {"w": W, "mask": MASK})
    mod = import_onnx(proto)
    assert_close(run_relax(mod, X), run_onnx(proto, X))
    assert_close(run_relax(normalize()(mod), X), run_onnx(proto, X))
    onnx.save(proto, tmp_path / "m.onnx")
    report = compile_model(tmp_path / "m.onnx", [X, -X], tmp_path / "m.ri8", samples=2)
    found = load(tmp_path / "m.ri8").run(X)["y"]
    np.testing.assert_allclose(found, run_onnx(proto, X)[0], atol=0.2)
    assert np.isfinite(report.outputs[0].snr_db)


def test_a_mask_behind_a_bias_stays_apart():
    bias, banned = W[0], np.where(np.arange(8) == 3, -np.inf, 0).astype("float32")
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("Add", ["m", "bias"], ["b"]),
        node("Add", ["b", "banned"], ["s"]),
        node("Softmax", ["s"], ["y"]),
    ]
    weights = {"w": W, "bias": bias, "banned": banned}
    proto = model(nodes, {"x": X.shape}, {"y": None}, weights)
    assert_close(run_relax(normalize()(import_onnx(proto)), X), run_onnx(proto, X))


@pytest.mark.parametrize(
    "nodes",
    [
        [node("MatMul", ["x", "broken"], ["y"])],
        [node("Transpose", ["broken"], ["t"]), node("MatMul", ["x", "t"], ["y"])],
        [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "broken_bias"], ["y"])],
        [node("LayerNormalization", ["x", "broken_bias"], ["y"])],
        [node("Reshape", ["broken", "flat"], ["f"]), node("MatMul", ["x", "f"], ["y"])],
    ],
)
def test_an_infinite_weight_is_refused(nodes):
    weights = {"w": W, "flat": np.array([8, 8]), "broken": W.copy(), "broken_bias": W[0].copy()}
    weights["broken"][1, 2] = weights["broken_bias"][3] = np.inf
    used = {name for each in nodes for name in each.input}
    weights = {name: array for name, array in weights.items() if name in used}
    proto = model(nodes, {"x": X.shape}, {"y": None}, weights)
    with pytest.raises(FrontendError, match=r"infinite values: (broken|t|f).*must be finite"):
        import_onnx(proto)


def test_a_mask_that_is_no_number_is_refused():
    proto = model(ATTENTION, {"x": X.shape}, {"y": None}, {"w": W, "mask": np.nan * MASK})
    with pytest.raises(FrontendError, match="NaN or infinite values: mask"):
        import_onnx(proto)
