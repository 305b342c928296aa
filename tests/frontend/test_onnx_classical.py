"""Operators of ai.onnx.ml around a network, as converters of scikit-learn write them."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from tests.onnx_models import assert_close, model, run_onnx, run_relax

pytestmark = pytest.mark.fast
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4)).astype("float32")
X[1] = 0


def classical(nodes: list[onnx.NodeProto], **weights: np.ndarray) -> onnx.ModelProto:
    proto = model(nodes, {"x": X.shape}, {"y": None}, weights)
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    return proto


def ml(op: str, inputs: list[str], **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs, ["y"], domain="ai.onnx.ml", **attributes)


CASES = {
    "scaler": ml("Scaler", ["x"], offset=[0.5, 0.0, 1.0, -1.0], scale=[2.0, 1.0, 0.5, 3.0]),
    "scaler by one number": ml("Scaler", ["x"], offset=[0.5], scale=[2.0]),
    "largest element": ml("Normalizer", ["x"], norm="MAX"),
    "sum of sizes": ml("Normalizer", ["x"], norm="L1"),
    "length": ml("Normalizer", ["x"], norm="L2"),
    "linear model": ml(
        "LinearRegressor",
        ["x"],
        coefficients=[float(i) for i in range(8)],
        intercepts=[1.0, -1.0],
        targets=2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_onnxruntime(name: str):
    proto = classical([CASES[name]])
    assert_close(run_relax(import_onnx(proto), X), run_onnx(proto, X))


@pytest.mark.parametrize(
    ("absent", "values"), [(np.nan, [1.0, 2.0, 3.0, 4.0]), (0.0, [0.5])], ids=["nan", "zero"]
)
def test_missing_elements_are_filled_in(absent: float, values: list[float]):
    proto = classical(
        [ml("Imputer", ["x"], imputed_value_floats=values, replaced_value_float=absent)]
    )
    x = X.copy()
    x[0, 1:3] = absent
    assert_close(run_relax(import_onnx(proto), x), run_onnx(proto, x))


def test_missing_integers_are_filled_in():
    proto = classical([ml("Imputer", ["x"], imputed_value_int64s=[7], replaced_value_int64=-1)])
    for value in (proto.graph.input[0], proto.graph.output[0]):
        value.type.tensor_type.elem_type = TensorProto.INT64
    x = np.array([[1, -1, 3, 4], [-1, 2, 0, -1], [0, 0, 5, 6]])
    (found,) = run_relax(import_onnx(proto), x)
    np.testing.assert_array_equal(found, run_onnx(proto, x)[0])


def test_the_label_of_the_largest_score():
    """As MLPClassifier is written: the labels are picked by an index."""
    nodes = [
        helper.make_node("ArgMax", ["x"], ["index"], axis=1),
        ml("ArrayFeatureExtractor", ["labels", "index"]),
    ]
    proto = classical(nodes, labels=np.array([7, 3, 9, 5]))
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    (labels,) = run_relax(import_onnx(proto), X)
    np.testing.assert_array_equal(labels, run_onnx(proto, X)[0])


def classifier(**attributes: object) -> onnx.ModelProto:
    """Return a linear model of three classes, without labels if they are not given."""
    coefficients = np.random.default_rng(1).normal(size=12).tolist()
    node = helper.make_node(
        "LinearClassifier",
        ["x"],
        ["label", "y"],
        domain="ai.onnx.ml",
        coefficients=coefficients,
        **attributes,
    )
    proto = classical([node])
    proto.graph.output.append(helper.make_tensor_value_info("label", TensorProto.INT64, [3]))
    return proto


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_label_and_scores_of_a_linear_classifier(transform: str):
    proto = classifier(
        classlabels_ints=[5, 3, 9], intercepts=[0.5, 0.0, -0.5], post_transform=transform
    )
    found, expected = run_relax(import_onnx(proto), X), run_onnx(proto, X)
    assert_close(found[:1], expected[:1])
    np.testing.assert_array_equal(found[1], expected[1])
    assert found[1].dtype == expected[1].dtype == np.int64


def test_refused_classifiers():
    with pytest.raises(UnsupportedOpError, match="its labels are texts"):
        import_onnx(classifier(classlabels_strings=["a", "b", "c"]))
    with pytest.raises(UnsupportedOpError, match="its post_transform is PROBIT, none of NONE"):
        import_onnx(classifier(classlabels_ints=[1, 2, 3], post_transform="PROBIT"))
    with pytest.raises(UnsupportedOpError, match="3 classes have 2 scores"):
        import_onnx(classifier(classlabels_ints=[1, 2, 3], intercepts=[0.0, 1.0]))


def test_refused_by_name():
    with pytest.raises(UnsupportedOpError, match="it has no imputed_value_floats"):
        import_onnx(classical([ml("Imputer", ["x"], replaced_value_float=0.0)]))
    with pytest.raises(UnsupportedOpError, match=r"ai\.onnx\.ml\.ZipMap .*zipmap=False"):
        import_onnx(classical([ml("ZipMap", ["x"], classlabels_int64s=[0, 1, 2, 3])]))
    with pytest.raises(UnsupportedOpError, match="post_transform is PROBIT"):
        import_onnx(
            classical(
                [ml("LinearRegressor", ["x"], coefficients=[1.0] * 4, post_transform="PROBIT")]
            )
        )
