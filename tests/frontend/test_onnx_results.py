"""What ONNX models return: tensors twice, inputs, sorted values; and what has no fixed size."""

import numpy as np
import onnx
import pytest
from onnx import helper

import relay_int8
from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import FrontendError, UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import results
from relay_int8.graph.groups import find_groups
from relay_int8.numerics.snr import snr_db
from tests.onnx_models import assert_close, model, run_onnx, run_relax

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1, 3, 9, 8)).astype("float32")
W = {"w": RNG.normal(size=(4, 3, 3, 3)).astype("float32")}
CONV = helper.make_node("Conv", ["x", "w"], ["c"])
node = helper.make_node


def test_every_result_is_a_tensor_of_its_own():
    """A tensor under two names, and an input under another, lose none of them."""
    nodes = [
        CONV,
        node("Relu", ["c"], ["y"]),
        node("Identity", ["y"], ["same"]),
        node("Identity", ["x"], ["input"]),
        node("Dropout", ["y"], ["again"]),
    ]
    names = ["same", "y", "again", "input"]
    proto = model(nodes, {"x": X.shape}, dict.fromkeys(names), W)
    mod = import_onnx(proto)
    for found in (mod, normalize()(mod), normalize()(normalize()(mod))):
        assert [var.name for var in results(found["main"])] == names
        assert_close(run_relax(found, X), run_onnx(proto, X))


def test_an_output_without_elements_is_named(tmp_path):
    bounds = {"begin": np.array([0]), "end": np.array([0]), "axis": np.array([1])}
    slicing = node("Slice", ["c", "begin", "end", "axis"], ["none"])
    proto = model([CONV, slicing], {"x": X.shape}, {"none": None, "c": None}, W | bounds)
    onnx.save(proto, tmp_path / "model.onnx")
    message = r"output none is 1 x 0 x 7 x 6 and has no elements; .*\(outputs=\['c'\]\)"
    with pytest.raises(FrontendError, match=message):
        relay_int8.load_model(tmp_path / "model.onnx")


def test_a_model_without_outputs_is_refused(tmp_path):
    onnx.save(model([CONV], {"x": X.shape}, {}, W), tmp_path / "model.onnx")
    message = r"the model has no outputs; name those to compute: ImportOptions\(outputs="
    with pytest.raises(FrontendError, match=message):
        relay_int8.load_model(tmp_path / "model.onnx")


def test_a_tile_of_integers_is_a_concat():
    nodes = [
        CONV,
        node("Tile", ["c", "r"], ["t"]),
        node("MaxPool", ["t"], ["y"], kernel_shape=[2, 2]),
    ]
    proto = model(nodes, {"x": X.shape}, {"y": None}, W | {"r": np.array([1, 2, 1, 3])})
    mod = import_onnx(proto)
    assert_close(run_relax(mod, X), run_onnx(proto, X))
    kinds = [group.kind for group in find_groups(mod["main"])]
    assert kinds == ["conv2d", "concat", "concat", "max_pool2d"]


def test_a_tile_of_many_copies_is_broadcast():
    """A concat of 196 parts, as SwiftFormer's queries, took LLVM minutes."""
    nodes = [CONV, node("Tile", ["c", "r"], ["t"]), node("Relu", ["t"], ["y"])]
    proto = model(nodes, {"x": X.shape}, {"y": None}, W | {"r": np.array([1, 1, 50, 2])})
    mod = import_onnx(proto)
    assert_close(run_relax(mod, X), run_onnx(proto, X))
    kinds = [group.kind for group in find_groups(mod["main"])]
    assert kinds.count("concat") == 1 and "broadcast_to" in kinds


SORTING = {
    "topk": [node("Flatten", ["c"], ["f"]), node("TopK", ["f", "k"], ["y", "places"])],
    "cumsum": [node("CumSum", ["c", "a"], ["y"], reverse=1, exclusive=1)],
    "einsum": [node("Einsum", ["c", "m"], ["y"], equation="bchw, cd -> bdhw")],
}


@pytest.mark.parametrize("name", SORTING)
def test_behind_a_layer_in_integers(name: str, tmp_path):
    """Sums along an axis, sorting and Einstein sums: float islands of artifacts."""
    constants = {
        "k": np.array([5]),
        "a": np.array(2),
        "m": RNG.normal(size=(4, 2)).astype("float32"),
    }
    proto = model([CONV, *SORTING[name]], {"x": X.shape}, {"y": None}, W | constants)
    onnx.save(proto, tmp_path / "net.onnx")
    relay_int8.compile_model(tmp_path / "net.onnx", [X], tmp_path / "net.ri8", samples=1)
    (found,) = relay_int8.load(tmp_path / "net.ri8").run({"x": X}).values()
    (wanted,) = run_onnx(proto, X)
    assert found.shape == wanted.shape
    assert snr_db(wanted, found) > 25


def test_sizes_that_follow_from_values_are_refused():
    proto = model([node("Unique", ["x"], ["y"])], {"x": X.shape}, {"y": None})
    with pytest.raises(UnsupportedOpError, match="depends on values of the input"):
        import_onnx(proto)
    boxes = [node("NonMaxSuppression", ["x", "x"], ["y"])]
    with pytest.raises(UnsupportedOpError, match=r"NonMaxSuppression.*it keeps no box"):
        import_onnx(model(boxes, {"x": (1, 4, 4)}, {"y": None}))


def test_places_of_what_a_constant_holds_are_known():
    """As the upper triangle of a product is taken: where ones are is computed, of the file alone."""
    nodes = [
        node("Trilu", ["ones"], ["triangle"]),
        node("NonZero", ["triangle"], ["places"]),
        node("Transpose", ["places"], ["indices"]),
        node("GatherND", ["x", "indices"], ["y"]),
    ]
    proto = model(nodes, {"x": (4, 4)}, {"y": None}, {"ones": np.ones((4, 4), "float32")})
    x = RNG.normal(size=(4, 4)).astype("float32")
    np.testing.assert_array_equal(run_relax(import_onnx(proto), x)[0], x[np.triu_indices(4)])


@pytest.mark.fast
@pytest.mark.parametrize("opset", [10, 16])
@pytest.mark.parametrize("samples", [0, 2])
def test_pixels_of_scaled_boxes(opset: int, samples: int):
    """Boxes are moved by half a pixel of the feature map, not of the image that they are of."""
    boxes = np.array([[0, 0, 6, 6], [1.5, 2, 13, 17], [9, 3, 9, 3]], "float32")
    proto = model(
        [
            node(
                "RoiAlign", ["x", "boxes", "images"], ["y"], output_height=3, output_width=2,
                sampling_ratio=samples, spatial_scale=0.25,
            )
        ],
        {"x": X.shape, "boxes": boxes.shape},
        {"y": None},
        {"images": np.zeros(3, "int64")},
        opset=opset,
    )  # fmt: skip
    assert_close(run_relax(import_onnx(proto), X, boxes), run_onnx(proto, X, boxes))
