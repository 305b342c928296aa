"""What PyTorch's exporters write: slices to the end, shapes computed in the graph, odd operators."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import ConfigError, FrontendError, UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import dtype, is_quantized, results, shape
from relay_int8.graph.groups import find_groups
from tests.onnx_models import assert_close, model, run_onnx, run_relax

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1, 3, 9, 8)).astype("float32")
END = np.iinfo("int64").max
node = helper.make_node


def constant_node(name: str, values: object, dtype: str = "int64") -> onnx.NodeProto:
    """Write a constant as PyTorch does: a node, not an initializer."""
    return node("Constant", [], [name], value=numpy_helper.from_array(np.array(values, dtype)))


def assert_same(proto: onnx.ModelProto, *arrays: np.ndarray) -> None:
    """Compare what is imported with ONNX Runtime."""
    assert_close(run_relax(import_onnx(proto), *arrays), run_onnx(proto, *arrays))


@pytest.mark.parametrize(("start", "step"), [(1, 1), (1, 2), (0, 2), (-3, 1)])
def test_slice_to_the_end(start: int, step: int):
    """The end is INT64_MAX, which must not become -1 on the way."""
    bounds = {"s": [start], "e": [END], "a": [2], "t": [step]}
    constants = [constant_node(name, value) for name, value in bounds.items()]
    nodes = [*constants, node("Slice", ["x", *bounds], ["y"])]
    assert_same(model(nodes, {"x": X.shape}, {"y": None}), X)


def test_widths_of_a_pad_that_are_turned_around():
    """PyTorch's pads list the last axis first; the exporter reverses them in the graph."""
    nodes = [
        constant_node("pads", [2, 1, 3, 2, 0, 0, 0, 0]),
        constant_node("pairs", [-1, 2]),
        *(constant_node(name, [v]) for name, v in (("s", -1), ("e", -END), ("a", 0), ("t", -1))),
        constant_node("flat", [-1]),
        node("Reshape", ["pads", "pairs"], ["p"]),
        node("Slice", ["p", "s", "e", "a", "t"], ["reversed"]),
        node("Transpose", ["reversed"], ["rows"], perm=[1, 0]),
        node("Reshape", ["rows", "flat"], ["widths"]),
        node("Pad", ["x", "widths"], ["y"], mode="reflect"),
    ]
    proto = model(nodes, {"x": X.shape}, {"y": None})
    assert shape(results(import_onnx(proto)["main"])[0]) == (1, 3, 14, 11)
    assert_same(proto, X)


def squeeze_if(condition: list[onnx.NodeProto], name: str = "yes") -> onnx.ModelProto:
    """Squeeze or hand on, as PyTorch's exporter writes it where it does not know the shape."""
    y = helper.make_empty_tensor_value_info("squeezed")
    then_branch = helper.make_graph([node("Squeeze", ["r", "axis"], ["squeezed"])], "t", [], [y])
    then_branch.initializer.append(numpy_helper.from_array(np.array([0]), "axis"))
    kept = helper.make_empty_tensor_value_info("kept")
    else_branch = helper.make_graph([node("Identity", ["r"], ["kept"])], "e", [], [kept])
    choice = node("If", [name], ["c"], "choice", then_branch=then_branch, else_branch=else_branch)
    nodes = [node("Relu", ["x"], ["r"]), *condition, choice, node("Sigmoid", ["c"], ["y"])]
    return model(nodes, {"x": X.shape}, {"y": None})


@pytest.mark.parametrize(("extent", "wanted"), [(1, (3, 9, 8)), (2, (1, 3, 9, 8))])
def test_a_choice_by_shapes_is_made(extent: int, wanted: tuple[int, ...]):
    proto = squeeze_if([
        constant_node("zero", 0), constant_node("one", extent), node("Shape", ["r"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]), node("Equal", ["n", "one"], ["yes"]),
    ])  # fmt: skip
    assert shape(results(import_onnx(proto)["main"])[0]) == wanted
    assert_same(proto, X)


BY_VALUES = [node("ReduceMax", ["x"], ["m"], keepdims=0), node("Cast", ["m"], ["yes"], to=9)]


def test_a_choice_by_values_between_shapes_is_refused():
    with pytest.raises(
        UnsupportedOpError,
        match=r"choice \(If\) chooses when the network runs.*\[3, 9, 8\] float32 or \[1, 3, 9, 8\]"
        r".*ImportOptions\(values=\{'NAME': NUMBER\}\)",
    ):
        import_onnx(squeeze_if(BY_VALUES))


@pytest.mark.parametrize("most", [2.0, -2.0])
def test_of_a_choice_by_values_both_branches_are_computed(most: float):
    """As a detector of voices has one network for each rate of samples; names are used twice."""
    branches = []
    for kind in ("Relu", "Neg"):
        inner = [node(kind, ["r"], ["inner"]), node("Mul", ["inner", "r"], ["product"])]
        results = [helper.make_empty_tensor_value_info(name) for name in ("product", "inner")]
        branches.append(helper.make_graph(inner, kind, [], results))
    more = [node("ReduceMax", ["x"], ["m"], keepdims=1), node("Greater", ["m", "zero"], ["yes"])]
    choice = node("If", ["yes"], ["a", "b"], then_branch=branches[0], else_branch=branches[1])
    nodes = [constant_node("zero", 0.0, "float32"), *more, node("Exp", ["x"], ["r"]), choice,
             node("Add", ["a", "b"], ["y"])]  # fmt: skip
    proto = model(nodes, {"x": X.shape}, {"y": None})
    assert_same(proto, np.full_like(X, most))


def rates() -> onnx.ModelProto:
    """Return a network that chooses by its input "rate", of which one branch gives more."""
    branches = []
    for kind in ("Relu", "Flatten"):
        y = helper.make_empty_tensor_value_info(f"{kind}Y")
        branches.append(helper.make_graph([node(kind, ["x"], [y.name])], kind, [], [y]))
    nodes = [constant_node("fast", 16000), node("Equal", ["rate", "fast"], ["yes"]),
             node("If", ["yes"], ["y"], "If_0", then_branch=branches[0],
                  else_branch=branches[1])]  # fmt: skip
    proto = model(nodes, {"x": X.shape, "rate": ()}, {"y": None})
    proto.graph.input[1].type.tensor_type.elem_type = onnx.TensorProto.INT64
    return proto


@pytest.mark.parametrize("rate", [16000, 8000, (16000,), 16000.0])
def test_an_input_that_chooses_is_given_its_value(rate: float):
    mod = import_onnx(rates(), values={"rate": rate})
    assert [str(param.name) for param in mod["main"].params] == ["x"]
    expected = np.maximum(X, 0) if rate != 8000 else X.reshape(1, -1)
    assert_close(run_relax(mod, X), [expected])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rat": 8000}, r"values=\{'rat': ...\}\): the model has no such input; it has x, rate"),
        (
            {"rate": 0.5},
            r"'rate': 0.5\}\): the model has int64 there, numbers of that type expected",
        ),
        ({"rate": True}, "the model has int64 there, numbers of that type expected"),
        ({"rate": (1, 2)}, r"values=\{'rate': \(1, 2\)\}\): 2 values found; the model has \[\]"),
        ({"rate": 8000, "x": 1}, r"all inputs are given a value \(x, rate\): nothing is left"),
    ],
)
def test_values_that_go_with_no_input(values: dict[str, float], message: str):
    with pytest.raises(ConfigError, match=message):
        import_onnx(rates(), values=values)


@pytest.mark.parametrize("flag", [True, 1, False])
def test_a_truth_value_is_given(flag: bool):
    proto = model([node("Where", ["flag", "x", "z"], ["y"])], {"x": X.shape, "flag": ()},
                  {"y": None}, {"z": np.zeros(8, "float32")})  # fmt: skip
    proto.graph.input[1].type.tensor_type.elem_type = onnx.TensorProto.BOOL
    assert_close(run_relax(import_onnx(proto, values={"flag": flag}), X), [X if flag else 0 * X])
    with pytest.raises(ConfigError, match="the model has bool there, True or False expected"):
        import_onnx(proto, values={"flag": 2})


def test_values_fill_an_extent_that_is_open():
    proto = model([node("Add", ["x", "z"], ["y"])], {"x": X.shape, "z": ("n",)}, {"y": None})
    mod = import_onnx(proto, values={"z": np.arange(8)})
    assert_close(run_relax(mod, X), [X + np.arange(8, dtype="float32")])


@pytest.mark.parametrize("bounds", [["low", "high"], ["low", ""], ["", "high"], ["low", "one"]])
def test_clip_with_computed_bounds(bounds: list[str]):
    """As a logarithm of sound is kept within 80 dB of its maximum."""
    computed = [node("ReduceMin", ["x"], ["least"], keepdims=0),
                node("Mul", ["least", "half"], ["low"]), node("Neg", ["low"], ["high"])]  # fmt: skip
    proto = model(
        [*computed, node("Clip", ["x", *bounds], ["y"])],
        {"x": X.shape},
        {"y": None},
        {"half": np.float32(0.5), "one": np.float32(1)},
    )
    assert_same(proto, X)


def test_one_hot_rows_of_an_input_are_of_the_type_of_their_values():
    """As a network of bytes of a file begins; an index that is out of range has no hit."""
    weights = {"depth": np.array([5], "int32"), "values": np.array([0, 2], "float32")}
    weights["w"] = RNG.normal(size=(5, 4)).astype("float32")
    nodes = [node("Cast", ["x"], ["at"], to=6), node("OneHot", ["at", "depth", "values"], ["rows"]),
             node("MatMul", ["rows", "w"], ["y"])]  # fmt: skip
    places = np.array([[0, 4, -1, 2, 9, -7]], "float32")
    assert_same(model(nodes, {"x": places.shape}, {"y": None}, weights), places)


def test_marks_of_open_extents_are_no_names():
    """An exporter of Paddle writes "?" for each of them."""
    proto = model([node("Relu", ["x"], ["y"])], {"x": ("?", 3, "?", "?")}, {"y": None})
    mod = import_onnx(proto, inputs={"x": (1, 3, 9, 8)})
    assert_close(run_relax(mod, X), [np.maximum(X, 0)])


def test_a_constant_output_keeps_its_value():
    """As a front end of sound gives how many frames there are, of samples whose number is fixed."""
    nodes = [node("Exp", ["w"], ["c"]), node("Relu", ["x"], ["y"]), node("Not", ["no"], ["yes"])]
    weights = {"w": np.array([1, 2], "float32"), "no": np.zeros((1, 3), "bool")}
    outputs = {"c": "float32", "y": "float32", "yes": "bool", "n": "int64"}
    nodes.append(constant_node("n", 3))
    proto = model(nodes, {"x": X.shape}, dict.fromkeys(outputs), weights)
    for value in proto.graph.output:
        value.type.tensor_type.elem_type = getattr(
            onnx.TensorProto,
            {"float32": "FLOAT"}.get(outputs[value.name], outputs[value.name].upper()),
        )
    mod = import_onnx(proto)
    assert [str(var.name) for var in results(mod["main"])] == list(outputs)
    normal = normalize()(mod)
    for x in (X, np.full_like(X, np.nan)):
        expected = run_onnx(proto, x)
        for found in (run_relax(mod, x), run_relax(normal, x)):
            np.testing.assert_equal([found[i] for i in (0, 2, 3)], [expected[i] for i in (0, 2, 3)])


def test_a_choice_without_its_branch():
    proto = squeeze_if([constant_node("yes", True, "bool")])
    del proto.graph.node[-2].attribute[:]
    with pytest.raises(FrontendError, match=r"choice \(If\) has no whole branch: 'then_branch'"):
        import_onnx(proto)


def test_sizes_are_computed_of_numbers_in_the_file():
    """A traced network scales the numbers of a shape as floats: 9 and 8 to at most 20."""
    nodes = [
        constant_node("shape", [9.0, 8.0], "float32"),
        node("ReduceMax", ["shape"], ["longest"], keepdims=0),
        node("Reciprocal", ["longest"], ["share"]),
        node("Mul", ["share", "bound"], ["scale"]),
        node("Mul", ["shape", "scale"], ["scaled"]),
        node("Floor", ["scaled"], ["floor"]),
        node("Cast", ["floor"], ["sizes"], to=onnx.TensorProto.INT64),
        node("Concat", ["leading", "sizes"], ["all"], axis=0),
        node("Resize", ["x", "", "", "all"], ["y"], mode="nearest"),
    ]
    weights = {"bound": np.array(20, "float32"), "leading": np.array([1, 3])}
    proto = model(nodes, {"x": X.shape}, {"y": None}, weights)
    assert shape(results(import_onnx(proto)["main"])[0]) == (1, 3, 20, 17)
    assert_same(proto, X)


def same_padding(choice: list[onnx.NodeProto]) -> onnx.ModelProto:
    """Pad for a stride of 2 as timm's traced networks do: floats of the size, bounded by zero."""
    nodes = [
        constant_node("size", 9.0, "float32"),
        node("Mod", ["size", "two"], ["odd"], fmod=1),
        node("Add", ["odd", "two"], ["wide"]),
        *choice,
        node("Cast", ["bounded"], ["width"], to=onnx.TensorProto.INT64),
        node("Unsqueeze", ["width", "axes"], ["row"]),
        node("Concat", ["none", "row", "row", "none", "row", "row"], ["widths"], axis=0),
        node("Pad", ["x", "widths"], ["y"]),
    ]
    weights = {
        "two": np.float32(2),
        "zero": np.float32(0),
        "axes": np.array([0]),
        "none": np.array([0, 0]),
    }
    return model(nodes, {"x": X.shape}, {"y": None}, weights)


def test_widths_are_bounded_numbers_in_the_file():
    assert_same(same_padding([node("Clip", ["wide", "zero", ""], ["bounded"])]), X)


def test_widths_are_chosen_by_a_comparison_of_numbers_in_the_file():
    chosen = [
        node("Greater", ["wide", "zero"], ["is_more"]),
        node("Where", ["is_more", "wide", "zero"], ["bounded"]),
    ]
    assert_same(same_padding(chosen), X)


def test_one_hot_rows_of_constants():
    """The depth that PyTorch's exporter writes may be a vector of one."""
    weights = {"at": np.array([[0, 2, 1, 0, 2, 1, 1, 0]]), "depth": np.array([3])}
    weights["values"] = np.array([0, 1], "float32")
    nodes = [
        node("OneHot", ["at", "depth", "values"], ["rows"], axis=1),
        node("MatMul", ["x", "turned"], ["y"]),
        node("Transpose", ["rows"], ["turned"], perm=[0, 2, 1]),
    ]
    assert_same(model([nodes[0], nodes[2], nodes[1]], {"x": X.shape}, {"y": None}, weights), X)


@pytest.mark.parametrize("lengths", [[9, 9, 9], [4, 4, 4], [1, 9, 3]])
def test_sequences_are_turned_around(lengths: list[int]):
    """As tf2onnx writes layers that read a sequence from its end."""
    nodes = [node("ReverseSequence", ["x", "n"], ["y"], batch_axis=0, time_axis=1)]
    x = X[0]
    assert_same(model(nodes, {"x": x.shape}, {"y": None}, {"n": np.array(lengths)}), x)


def test_sequences_of_computed_lengths_are_refused():
    nodes = [
        node("ReduceMax", ["x"], ["longest"], axes=[1, 2], keepdims=0),
        node("Cast", ["longest"], ["n"], to=onnx.TensorProto.INT64),
        node("ReverseSequence", ["x", "n"], ["y"], batch_axis=0, time_axis=1),
    ]
    with pytest.raises(UnsupportedOpError, match="its sequence_lens are computed, not constant"):
        import_onnx(model(nodes, {"x": X[0].shape}, {"y": None}))


def test_erfc_is_what_keras_writes_in_gelu():
    proto = model([node("Erfc", ["x"], ["y"])], {"x": X.shape}, {"y": None})
    nodes = [node("Erf", ["x"], ["e"]), node("Sub", ["one", "e"], ["y"])]
    plain = model(nodes, {"x": X.shape}, {"y": None}, {"one": np.float32(1)})
    assert_close(run_relax(import_onnx(proto), X), run_onnx(plain, X))


@pytest.mark.parametrize("places", [[[0, 2], [0, -1]], [[-1, 0], [0, 1]]])
def test_gather_at_constant_places(places: list[list[int]]):
    nodes = [constant_node("places", places), node("GatherND", ["x", "places"], ["y"])]
    assert_same(model(nodes, {"x": X.shape}, {"y": None}), X)


def test_gather_outside():
    nodes = [constant_node("places", [[0, 3]]), node("GatherND", ["x", "places"], ["y"])]
    with pytest.raises(UnsupportedOpError, match=r"0 to 3, outside of \[1, 3\]"):
        import_onnx(model(nodes, {"x": X.shape}, {"y": None}))


def softplus() -> list[onnx.NodeProto]:
    """Write Softplus as PyTorch's newer exporter does: the argument itself above a threshold."""
    return [
        node("Softplus", ["r"], ["soft"]),
        constant_node("twenty", 20, "float32"),
        node("Greater", ["r", "twenty"], ["above"]),
        node("Where", ["above", "r", "soft"], ["f"]),
    ]


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Celu", ["r"], ["f"], alpha=0.5)],
        [node("Elu", ["r"], ["f"], alpha=0.5)],
        [node("Selu", ["r"], ["f"])],
        [node("ThresholdedRelu", ["r"], ["f"], alpha=0.5)],
        softplus(),
    ],
    ids=["celu", "elu", "selu", "thresholded", "softplus"],
)
def test_activations_of_several_operators_are_one_function(nodes: list[onnx.NodeProto]):
    scaled = [constant_node("k", np.arange(3).reshape(1, 3, 1, 1) * 12 - 9, "float32")]
    scaled.append(node("Add", ["x", "k"], ["r"]))
    proto = model([*scaled, *nodes, node("MaxPool", ["f"], ["y"], kernel_shape=[2, 2])],
                  {"x": X.shape}, {"y": None}, opset=12 if len(nodes) == 1 else 17)  # fmt: skip
    assert_same(proto, X)
    found = [group.kind for group in find_groups(normalize()(import_onnx(proto))["main"])]
    assert found[-2:] == ["function", "max_pool2d"]


@pytest.mark.parametrize("places", [1, -1, [1, 2], [-2], [2, 0], [[1, 2]]])
def test_gather_of_channels(places: object):
    nodes = [constant_node("places", places), node("Gather", ["x", "places"], ["y"], axis=1)]
    assert_same(model(nodes, {"x": X.shape}, {"y": None}), X)


def test_gather_of_neighbours_moves_integers():
    nodes = [constant_node("places", [1, 2]), node("Gather", ["x", "places"], ["y"], axis=-3)]
    mod = import_onnx(model(nodes, {"x": X.shape}, {"y": None}))
    assert [group.kind for group in find_groups(mod["main"])] == ["slice"]


def test_gather_of_a_channel_that_is_not_there():
    nodes = [constant_node("places", 3), node("Gather", ["x", "places"], ["y"], axis=1)]
    with pytest.raises(UnsupportedOpError, match="3 to 3, outside of 3"):
        import_onnx(model(nodes, {"x": X.shape}, {"y": None}))


@pytest.mark.parametrize("reduce", ["ReduceMean", "ReduceMax"])
@pytest.mark.parametrize(("axes", "keepdims"), [([2], 1), ([-1], 1), ([3], 0), ([2, 3], 0)])
def test_a_reduction_of_rows_or_columns_is_pooling(reduce: str, axes: list[int], keepdims: int):
    nodes = [node(reduce, ["x"], ["y"], axes=axes, keepdims=keepdims)]
    proto = model(nodes, {"x": X.shape}, {"y": None})
    assert_close(run_relax(normalize()(import_onnx(proto)), X), run_onnx(proto, X))
    first = find_groups(normalize()(import_onnx(proto))["main"])[0]
    assert first.kind == {"ReduceMean": "avg_pool2d", "ReduceMax": "max_pool2d"}[reduce]


@pytest.mark.parametrize("dtype_name", ["float16", "float64"])
@pytest.mark.parametrize("is_cast_inside", [False, True])
def test_other_floats_are_float32(dtype_name: str, is_cast_inside: bool):
    kind = {"float16": onnx.TensorProto.FLOAT16, "float64": onnx.TensorProto.DOUBLE}[dtype_name]
    w = RNG.normal(size=(4, 3, 3, 3)).astype("float16")
    two = constant_node("two", [2.0], dtype_name)
    nodes = [two, node("Conv", ["h", "w"], ["c"]), node("Mul", ["c", "two"], ["g"])]
    if is_cast_inside:
        ends = [node("Cast", ["x"], ["h"], to=kind), node("Cast", ["g"], ["y"], to=1)]
        proto = model(
            [ends[0], *nodes, ends[1]], {"x": X.shape}, {"y": None}, {"w": w.astype(dtype_name)}
        )
    else:
        proto = model(nodes, {"h": X.shape}, {"g": None}, {"w": w.astype(dtype_name)})
        for value in (*proto.graph.input, *proto.graph.output):
            value.type.tensor_type.elem_type = kind
    before = proto.SerializeToString()
    mod = import_onnx(proto)
    assert proto.SerializeToString() == before
    assert [dtype(var) for var in (*mod["main"].params, *results(mod["main"]))] == ["float32"] * 2
    plain = [node("Conv", ["x", "w"], ["c"]), node("Add", ["c", "c"], ["y"])]
    same = model(plain, {"x": X.shape}, {"y": None}, {"w": w.astype("float32")})
    assert_close(run_relax(mod, X), run_onnx(same, X))


def test_a_double_that_no_float32_can_hold():
    w = np.full((4, 3, 3, 3), 1e300)
    proto = model([node("Conv", ["x", "w"], ["y"])], {"x": X.shape}, {"y": None}, {"w": w})
    with pytest.raises(FrontendError, match="NaN or infinite values: w"):
        import_onnx(proto)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_mean_of_tensors_is_a_sum(count: int):
    scaled = [node("Mul", ["x", "k"], ["a"]), node("Relu", ["x"], ["b"])]
    nodes = [*scaled, node("Mean", ["a", "b", "x"][:count], ["y"])]
    proto = model(nodes, {"x": X.shape}, {"y": None}, {"k": np.float32(1.5)})
    mod = import_onnx(proto)
    assert_close(run_relax(mod, X), run_onnx(proto, X))
    assert "mean" not in [group.kind for group in find_groups(mod["main"])]


def test_weights_alone_in_integers_are_read_as_float():
    """Such a model quantizes no activation: it is calibrated as any other."""
    weights = {
        "q": RNG.integers(-127, 128, (4, 3, 3, 3)).astype("int8"),
        "s": RNG.uniform(0.01, 0.1, 4).astype("float32"),
        "z": RNG.integers(-3, 4, 4).astype("int8"),
        "q2": RNG.integers(0, 255, (4, 5)).astype("uint8"),
        "s2": np.float32(0.01),
        "z2": np.uint8(120),
    }
    nodes = [
        node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=0),
        node("DequantizeLinear", ["q2", "s2", "z2"], ["m"]),
        node("Conv", ["x", "w"], ["c"]),
        node("GlobalAveragePool", ["c"], ["p"]),
        node("Flatten", ["p"], ["f"]),
        node("MatMul", ["f", "m"], ["y"]),
    ]
    mod = import_onnx(model(nodes, {"x": X.shape}, {"y": None}, weights))
    assert not is_quantized(mod)
    scales = weights["s"].astype("float64").reshape(4, 1, 1, 1)
    steps = weights["q"].astype("float64") - weights["z"].reshape(4, 1, 1, 1)
    real = {
        "w": (steps * scales).astype("float32"),
        "m": ((weights["q2"].astype("float64") - 120) * weights["s2"]).astype("float32"),
    }
    plain = model(nodes[2:], {"x": X.shape}, {"y": None}, real)
    assert_close(run_relax(mod, X), run_onnx(plain, X))


def test_rows_of_a_quantized_table_are_read_as_float():
    """As ONNX Runtime's dynamic quantization writes embeddings: their layers get ranges."""
    weights = {
        "table": RNG.integers(0, 255, (7, 8)).astype("uint8"),
        "s": np.float32(0.02),
        "z": np.uint8(117),
        "w": RNG.normal(size=(8, 4)).astype("float32"),
        "axes": np.array([1]),
    }
    nodes = [
        node("Cast", ["ids"], ["at"], to=onnx.TensorProto.INT64),
        node("Gather", ["table", "at"], ["rows"]),
        node("Unsqueeze", ["rows", "axes"], ["moved"]),
        node("DequantizeLinear", ["moved", "s", "z"], ["real"]),
        node("MatMul", ["real", "w"], ["y"]),
    ]
    proto = model(nodes, {"ids": (1, 5)}, {"y": None}, weights)
    ids = np.array([[0, 6, 3, 3, 1]], "float32")
    mod = import_onnx(proto)
    assert not is_quantized(mod)
    assert_close(run_relax(mod, ids), run_onnx(proto, ids))


def test_what_is_moved_between_dynamic_quantization_and_its_reals():
    """As ONNX Runtime's dynamic quantization writes transposes: such a network is a float one."""
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("Transpose", ["q"], ["moved"], perm=[0, 2, 3, 1]),
        node("DequantizeLinear", ["moved", "s", "z"], ["real"]),
        node("Relu", ["real"], ["y"]),
    ]
    mod = import_onnx(model(nodes, {"x": X.shape}, {"y": None}))
    assert not is_quantized(mod)
    np.testing.assert_array_equal(run_relax(mod, X)[0], np.maximum(X.transpose(0, 2, 3, 1), 0))


def test_weights_of_a_quantized_model_keep_their_pairs():
    one = {"s": np.float32(0.1), "z": np.int8(0)}
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["a"]),
        node("DequantizeLinear", ["a", "s", "z"], ["b"]),
        node("DequantizeLinear", ["q", "s", "z"], ["w"]),
        node("Conv", ["b", "w"], ["y"]),
    ]
    q = RNG.integers(-127, 128, (4, 3, 3, 3)).astype("int8")
    mod = import_onnx(model(nodes, {"x": X.shape}, {"y": None}, one | {"q": q}))
    kinds = [group.kind for group in find_groups(mod["main"])]
    assert kinds.count("dequantize") == 2


def test_biases_that_dynamic_quantization_rounds_are_read_unrounded():
    """As the first versions of ONNX Runtime's tool wrote them: a step of x is not known here."""
    steps = {
        "s_w": np.float32(0.1),
        "z_w": np.uint8(120),
        "b": RNG.normal(size=4).astype("float32"),
    }
    q = RNG.integers(0, 256, (4, 3, 3, 3)).astype("uint8")
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q_x", "s", "z"]),
        node("ConvInteger", ["q_x", "w", "z", "z_w"], ["sums"]),
        node("Mul", ["s", "s_w"], ["scale"]),
        node("Div", ["b", "scale"], ["quotient"]),
        node("Floor", ["quotient"], ["rounded"]),
        node("Cast", ["rounded"], ["q_b"], to=onnx.TensorProto.INT32),
        node("Reshape", ["q_b", "dims"], ["bias"]),
        node("Add", ["sums", "bias"], ["biased"]),
        node("Cast", ["biased"], ["float"], to=1),
        node("Mul", ["float", "scale"], ["y"]),
    ]
    weights = {**steps, "w": q, "dims": np.array([1, -1, 1, 1])}
    mod = import_onnx(model(nodes, {"x": X.shape}, {"y": None}, weights))
    assert not is_quantized(mod)
    reals = (q.astype("float32") - 120) * steps["s_w"]
    plain = model([node("Conv", ["x", "w", "b"], ["y"])], {"x": X.shape}, {"y": None},
                  {"w": reals, "b": steps["b"]})  # fmt: skip
    assert_close(run_relax(mod, X), run_onnx(plain, X))
    (conv,) = (g for g in find_groups(normalize()(mod)["main"]) if g.kind == "conv2d")
    np.testing.assert_allclose(conv.bias, steps["b"], rtol=1e-5)
