"""Sparse constants of an ONNX file are read as dense ones."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from relay_int8.errors import FrontendError
from relay_int8.frontend.onnx import import_onnx
from tests.onnx_models import model, run_relax

pytestmark = pytest.mark.fast
X = np.random.default_rng(0).normal(size=(2, 4)).astype("float32")
DENSE = np.zeros((4, 3), "float32")
DENSE[0, 1], DENSE[3, 2] = 2.0, -1.5
LINEAR = np.array([1, 11])
COORDINATES = np.array([[0, 1], [3, 2]])


def sparse(indices: np.ndarray, dims: list[int]) -> onnx.SparseTensorProto:
    values = numpy_helper.from_array(np.array([2.0, -1.5], "float32"), "w")
    return helper.make_sparse_tensor(values, numpy_helper.from_array(indices, ""), dims)


@pytest.mark.parametrize("indices", [LINEAR, COORDINATES], ids=["linear", "coordinates"])
@pytest.mark.parametrize("kind", ["initializer", "constant"])
def test_sparse_weights(kind: str, indices: np.ndarray):
    weights = sparse(indices, [4, 3])
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    if kind == "constant":
        nodes.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=weights))
    proto = model(nodes, {"x": [2, 4]}, {"y": [2, 3]})
    if kind == "initializer":
        proto.graph.sparse_initializer.append(weights)
    before = proto.SerializeToString(deterministic=True)
    np.testing.assert_allclose(run_relax(import_onnx(proto), X)[0], X @ DENSE, rtol=1e-6)
    assert proto.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(
    ("indices", "dims", "reason"),
    [(np.array([1, 99]), [4, 3], "cannot be read"), (LINEAR, [1 << 20, 1 << 20], "is damaged")],
)
def test_what_is_no_tensor(indices: np.ndarray, dims: list[int], reason: str):
    proto = model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [2, 4]}, {"y": [2, 3]})
    proto.graph.sparse_initializer.append(sparse(indices, dims))
    with pytest.raises(FrontendError, match=f"sparse tensor w .*{reason}"):
        import_onnx(proto)
