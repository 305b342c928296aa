"""Products with constants become layers, with the same numbers."""

import numpy as np
import onnx
import pytest
from onnx import helper

from relay_int8.compiler.pipeline import normalized
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import results
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from tests.onnx_models import assert_close, model, run_onnx, run_relax

RNG = np.random.default_rng(0)
F32 = "float32"
node = helper.make_node


def weights(*dims: int) -> np.ndarray:
    return RNG.normal(size=dims).astype(F32)


def layers(x: np.ndarray, nodes: list[onnx.NodeProto], **constants: np.ndarray) -> dict[str, str]:
    """Return kind and reason of the products of a model that is compared with ONNX Runtime."""
    proto = model(nodes, {"x": x.shape}, {"y": None}, constants)
    mod, _ = normalized(import_onnx(proto))
    assert [var.name for var in results(mod["main"])] == ["y"]
    assert_close(run_relax(mod, x), run_onnx(proto, x))
    found = annotate(mod, QuantConfig()).layers
    return {layer.kind: layer.reason for layer in found if layer.kind in ("dense", "conv2d")}


@pytest.mark.parametrize(
    ("dims", "w", "kind"),
    [
        ((2, 5, 7), (6, 5), "dense"),
        ((2, 3, 5, 7), (1, 1, 6, 5), "dense"),
        ((5, 7), (6, 5), "dense"),
        ((2, 3, 5, 7), (1, 3, 6, 5), "conv2d"),
        ((3, 5, 7), (3, 6, 5), "conv2d"),
    ],
)
def test_weights_on_the_left(dims: tuple[int, ...], w: tuple[int, ...], kind: str):
    found = layers(weights(*dims), [node("MatMul", ["w", "x"], ["y"])], w=weights(*w))
    assert found == {kind: None}


@pytest.mark.parametrize(
    ("dims", "w", "kind"),
    [
        ((2, 3, 7, 5), (1, 1, 5, 6), "dense"),
        ((2, 3, 7, 5), (3, 5, 6), "conv2d"),
        ((2, 3, 7, 5), (1, 3, 5, 6), "conv2d"),
        ((3, 7, 5), (3, 5, 6), "conv2d"),
    ],
)
def test_weights_of_many_matrices(dims: tuple[int, ...], w: tuple[int, ...], kind: str):
    found = layers(weights(*dims), [node("MatMul", ["x", "w"], ["y"])], w=weights(*w))
    assert found == {kind: None}


@pytest.mark.parametrize("bias", [(6, 1), (1, 6, 1)])
def test_a_bias_of_rows_is_the_layer_s(bias: tuple[int, ...]):
    nodes = [node("MatMul", ["w", "x"], ["m"]), node("Add", ["b", "m"], ["s"]), node("Relu", ["s"], ["r"]), node("MatMul", ["v", "r"], ["y"])]  # fmt: skip
    x = weights(2, 5, 7)
    proto = model(nodes, {"x": x.shape}, {"y": None}, {"w": weights(6, 5), "b": weights(*bias), "v": weights(4, 6)})  # fmt: skip
    mod, _ = normalized(import_onnx(proto))
    assert_close(run_relax(mod, x), run_onnx(proto, x))
    kinds = [layer.kind for layer in annotate(mod, QuantConfig()).layers]
    assert kinds.count("dense") == 2
    assert "add" not in kinds


@pytest.mark.parametrize(
    ("dims", "w"), [((2, 1, 7, 5), (3, 5, 6)), ((7, 5), (3, 5, 6)), ((2, 3, 7, 5), (2, 3, 5, 6))]
)
def test_other_matrices_stay(dims: tuple[int, ...], w: tuple[int, ...]):
    """One input for many matrices, or a matrix for each image of a batch, is no layer."""
    found = layers(weights(*dims), [node("MatMul", ["x", "w"], ["y"])], w=weights(*w))
    assert set(found) == {"dense"}
    assert "dimensions" in found["dense"]
