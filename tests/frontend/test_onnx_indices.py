"""Gather, Scatter and their kin: constant, given and computed indices; none reads out of bounds."""

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

from relay_int8 import compile_model, load, load_model
from relay_int8.api.float_network import float_network
from relay_int8.compiler.build import compile_module, virtual_machine
from relay_int8.compiler.pipeline import normalize
from relay_int8.compiler.target import resolve_target
from relay_int8.data.images import open_images
from relay_int8.errors import ArtifactError, CalibrationError, ConfigError, UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import calls, operator
from relay_int8.graph.index_ranges import index_ranges
from relay_int8.graph.interface import inputs_of, open_inputs
from relay_int8.messages import outside
from relay_int8.runtime.profiling import random_inputs
from tests.onnx_models import model, run_onnx, run_relax

node = helper.make_node
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4, 5)).astype("float32")
INT = TensorProto.INT64


def indexing(op, indices, *, dims=None, weights=None, nodes=(), opset=18, **attributes):
    """Return a model of ``op`` over x and indices i; an array of them is given, else constant."""
    constants = {"x": X} if dims is None else {}
    constants |= weights or {}
    inputs = [helper.make_tensor_value_info("i", INT, indices)]
    if dims is not None:
        inputs.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, dims))
    operands = ["x", "j" if nodes else "i", *(["u"] if op.startswith("Scatter") else [])]
    graph = helper.make_graph(
        [*nodes, node(op, operands, ["y"], **attributes)],
        "graph",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def run(proto: onnx.ModelProto, *arrays: np.ndarray) -> np.ndarray:
    """Compile as an artifact is, and run."""
    machine = virtual_machine(compile_module(normalize()(import_onnx(proto)), TARGET))
    result = machine["main"](*map(tvm.runtime.tensor, arrays))
    return result.numpy()


TARGET = resolve_target("native", 1)
CASES = {
    "Gather": ("Gather", np.array([[2, -1], [0, -4]]), {"axis": 1}, None),
    "Gather of one": ("Gather", np.array(-1), {"axis": -1}, None),
    "GatherElements": ("GatherElements", RNG.integers(-4, 4, (3, 2, 5)), {"axis": 1}, None),
    "GatherElements of shorter": (
        "GatherElements",
        RNG.integers(-4, 4, (2, 6, 3)),
        {"axis": 1},
        None,
    ),
    "GatherND": ("GatherND", np.array([[2, -1], [-3, 0]]), {}, None),
    "GatherND of batches": ("GatherND", np.array([[1], [-1], [3]]), {"batch_dims": 1}, None),
    "ScatterElements": (
        "ScatterElements",
        np.array([[[1, -1, 0, 2, -4]]] * 3),
        {"axis": 1},
        (3, 1, 5),
    ),
    "ScatterElements of shorter": (
        "ScatterElements",
        np.array([[[1, -1, 0]], [[-4, 2, 3]]]),
        {"axis": 1, "reduction": "add"},
        (2, 1, 3),
    ),
    "ScatterND": ("ScatterND", np.array([[2, -1], [-3, 0]]), {"reduction": "max"}, (2, 5)),
}


@pytest.mark.parametrize("case", CASES)
def test_indices_that_are_given(case):
    op, indices, attributes, updates = CASES[case]
    weights = {} if updates is None else {"u": RNG.normal(size=updates).astype("float32")}
    proto = indexing(op, indices.shape, weights=weights, **attributes)
    assert np.array_equal(run(proto, indices), run_onnx(proto, indices)[0])


@pytest.mark.parametrize("case", CASES)
def test_indices_that_are_far_out_end_no_process(case):
    op, indices, attributes, updates = CASES[case]
    weights = {} if updates is None else {"u": RNG.normal(size=updates).astype("float32")}
    proto = indexing(op, indices.shape, weights=weights, **attributes)
    far = np.where(np.arange(indices.size).reshape(indices.shape) % 2, 1 << 60, -(1 << 60))
    assert np.isfinite(run(proto, far)).all()


@pytest.mark.parametrize("case", CASES)
def test_indices_that_are_constant(case):
    op, indices, attributes, updates = CASES[case]
    weights = {"i": indices}
    if updates is not None:
        weights["u"] = RNG.normal(size=updates).astype("float32")
    proto = indexing(op, indices.shape, dims=X.shape, weights=weights, **attributes)
    del proto.graph.input[0]
    assert np.array_equal(run(proto, X), run_onnx(proto, X)[0])
    assert not index_ranges(import_onnx(proto)["main"])


@pytest.mark.parametrize("op", ["Gather", "GatherElements"])
def test_constant_indices_out_of_bounds_are_refused(op):
    proto = indexing(op, (1, 1, 1), dims=X.shape, weights={"i": np.full((1, 1, 1), 4)}, axis=1)
    del proto.graph.input[0]
    with pytest.raises(UnsupportedOpError, match=r"its indices are 4 to 4, outside of 4"):
        import_onnx(proto)


def test_computed_indices_leave_no_shape_in_the_graph():
    proto = indexing("Gather", (2, 2), nodes=[node("Abs", ["i"], ["j"])], axis=1)
    names = {operator(value) for _, value in calls(import_onnx(proto)["main"])}
    assert not names & {"shape_of", "shape_to_tensor"}


def test_elements_of_constants_are_folded():
    types = np.arange(512).reshape(1, 512)
    nodes = [
        node("GatherElements", ["types", "places"], ["t"], axis=1),
        node("Add", ["i", "t"], ["j"]),
    ]
    places = RNG.integers(0, 3, (1, 4))
    proto = indexing("Gather", (1, 4), weights={"types": types, "places": places}, nodes=nodes)
    given = np.zeros((1, 4), "int64")
    assert np.array_equal(run(proto, given), X[places])


class TestRanges:
    """Which integers an input may hold."""

    def range_of(self, *nodes, op="Gather", shape=(2, 2), weights=None, **attributes):
        proto = indexing(op, shape, nodes=nodes, weights=weights, **attributes)
        return index_ranges(import_onnx(proto)["main"]).get("i")

    def test_indices_may_count_from_the_end(self):
        assert self.range_of(axis=1) == (-4, 3)

    def test_they_are_followed_through_moves_and_shifts(self):
        two, flat = np.array(2), np.array([4])
        nodes = [node("Reshape", ["i", "flat"], ["r"]), node("Add", ["r", "two"], ["j"])]
        weights = {"two": two, "flat": flat}
        assert self.range_of(*nodes, weights=weights, axis=1) == (-6, 1)

    def test_what_is_computed_otherwise_is_not(self):
        assert self.range_of(node("Abs", ["i"], ["j"]), axis=1) is None

    def test_elements(self):
        assert self.range_of(op="GatherElements", shape=(3, 4, 5), axis=2) == (-5, 4)

    def test_no_integer_is_left(self):
        ten = np.array(10)
        nodes = [node("Gather", ["x", "i"], ["a"]), node("Add", ["i", "ten"], ["j"])]
        with pytest.raises(UnsupportedOpError, match="input i indexes several tensors"):
            proto = indexing("Gather", (2,), nodes=nodes, weights={"ten": ten})
            proto.graph.output.add().CopyFrom(
                helper.make_tensor_value_info("a", TensorProto.FLOAT, None)
            )
            inputs_of(import_onnx(proto))


def test_inputs_to_time_with_are_valid():
    mod = import_onnx(indexing("Gather", (2, 200), axis=1))
    (info,) = inputs_of(mod)
    assert info.index_range == (-4, 3)
    found = random_inputs([info])["i"]
    assert found.min() == 0 and found.max() == 3


def test_other_integers_to_time_with_are_small():
    mod = import_onnx(indexing("Gather", (2, 200), nodes=[node("Abs", ["i"], ["j"])]))
    assert set(random_inputs(inputs_of(mod))["i"].flat) == {0, 1}


def test_calibration_data_is_checked():
    mod = import_onnx(indexing("Gather", (1, 2), axis=1))
    open_images(open_inputs(mod), [{"i": np.array([[3, -4]])}])
    with pytest.raises(CalibrationError, match="'i': integers from 0 to 4 given, from -4 to 3"):
        open_images(open_inputs(mod), [{"i": np.array([[0, 4]])}])


def test_outside():
    assert outside(np.array([0, 3]), (-4, 3)) is None
    assert outside(np.array([], "int64"), (-4, 3)) is None
    assert outside(np.array([9]), None) is None
    assert outside(np.array([-5, 0]), (-4, 3)) == (
        "integers from -5 to 0 given, from -4 to 3 expected: the network reads a table at them"
    )


def test_an_artifact_refuses_bad_indices(tmp_path):
    table, w = RNG.normal(size=(10, 8)).astype("float32"), RNG.normal(size=(8, 4))
    graph = helper.make_graph(
        [node("Gather", ["table", "ids"], ["e"]), node("MatMul", ["e", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("ids", INT, (1, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(table, "table"),
            numpy_helper.from_array(w.astype("float32"), "w"),
        ],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    data = [np.arange(4)[None], np.array([[9, -10, 5, 6]])]
    compile_model(tmp_path / "m.onnx", data, tmp_path / "m.ri8", samples=2)
    network = load(tmp_path / "m.ri8")
    assert network.manifest.inputs[0].index_range == (-10, 9)
    network.run(np.array([[-10, 9, 0, 1]]))
    with pytest.raises(ArtifactError, match="ids: integers from 0 to 10 given, from -10 to 9"):
        network.run(np.array([[0, 10, 0, 1]]))
    with pytest.raises(ConfigError, match="input ids of the FP32 network: integers from 0 to 10"):
        float_network(load_model(tmp_path / "m.onnx"))({"ids": np.array([[0, 10, 0, 1]])})


def test_regions_of_images_that_are_not_there():
    inputs = {"images": (2, 1, 4, 4), "boxes": (2, 4)}
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    infos.append(helper.make_tensor_value_info("i", INT, (2,)))
    sizes = {"output_height": 2, "output_width": 2, "sampling_ratio": 2}
    graph = helper.make_graph(
        [node("RoiAlign", ["images", "boxes", "i"], ["y"], **sizes)],
        "graph",
        infos,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    images, boxes = RNG.normal(size=inputs["images"]), np.array([[0, 0, 3, 3], [1, 1, 4, 3]])
    given = images.astype("float32"), boxes.astype("float32")
    valid = np.array([1, 0])
    expected = run_onnx(proto, *given, valid)[0]
    np.testing.assert_allclose(run(proto, *given, valid), expected, atol=1e-5)
    assert np.isfinite(run(proto, *given, np.array([1 << 40, -(1 << 40)]))).all()


@pytest.mark.fast
@pytest.mark.parametrize(
    ("indices", "wanted"),
    [
        (np.arange(4).reshape(2, 2), ["reshape"]),
        (np.arange(1, 3).reshape(2, 1), ["strided_slice", "reshape"]),
        (np.array([[0, 1], [3, 2]]), ["take"]),
    ],
)
def test_neighbours_along_several_axes_are_a_view(indices, wanted):
    """PyTorch's exporter writes a view of the memory (as_strided) as a Gather of all positions."""
    nodes = [node("Gather", ["x", "i"], ["y"], axis=1)]
    proto = model(nodes, {"x": X.shape}, {"y": None}, {"i": indices})
    mod = import_onnx(proto)
    assert [operator(value) for _, value in calls(mod["main"])] == wanted
    np.testing.assert_array_equal(run_relax(mod, X)[0], X[:, indices])


@pytest.mark.fast
@pytest.mark.parametrize(
    ("positions", "wanted"),
    [
        ([[-1]], ["strided_slice"]),
        ([[1], [2]], ["strided_slice"]),
        ([[2], [0]], ["strided_slice", "strided_slice", "concat"]),
        ([[2], [0], [2]], ["take"]),
    ],
)
def test_constant_coordinates_along_one_axis(positions: list[list[int]], wanted: list[str]):
    """Neighbours are slices, which are computed in integers."""
    given = {"i": np.array(positions, "int64")}
    proto = model([node("GatherND", ["x", "i"], ["y"])], {"x": X.shape}, {"y": None}, given)
    mod = import_onnx(proto)
    assert [operator(value) for _, value in calls(mod["main"])] == wanted
    np.testing.assert_array_equal(run_relax(mod, X)[0], X[given["i"][:, 0]])


@pytest.mark.fast
@pytest.mark.parametrize(
    ("rows", "wanted"),
    [([0], ["strided_slice", "concat"]), ([1, 2], None), ([0, 2], ["scatter_nd"])],
    ids=str,
)
def test_neighbours_that_are_written_over_are_joined_with_the_rest(rows, wanted):
    """PyTorch's exporter writes ``x[rows] = y`` as a ScatterND at constant coordinates."""
    given = {"i": np.array(rows, "int64")[:, None]}
    updates = np.random.default_rng(1).normal(size=(len(rows), *X.shape[1:])).astype("float32")
    nodes = [node("Neg", ["u"], ["n"]), node("ScatterND", ["x", "i", "n"], ["y"])]
    inputs = {"x": X.shape, "u": updates.shape}
    mod = import_onnx(model(nodes, inputs, {"y": None}, given))
    found = [operator(value) for _, value in calls(mod["main"])][1:]
    assert found == (["strided_slice", "concat"] if wanted is None else wanted)
    expected = X.copy()
    expected[rows] = -updates
    np.testing.assert_array_equal(run_relax(mod, X, updates)[0], expected)
