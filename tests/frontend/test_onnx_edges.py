"""ONNX operators at the edges of their domain: right, or refused by node, operator and reason."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import relay_int8
from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import FrontendError, UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.frontend.onnx.node_form import title_of
from relay_int8.graph.dataflow import calls, operator
from tests.onnx_models import run_relax

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1, 4, 6, 6)).astype("float32")
INFINITIES = np.array([-np.inf, -1.5, 0.0, 2.5, np.inf, np.nan], "float32")
node = helper.make_node


def typed(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, str],
    weights: Mapping[str, np.ndarray] | None = None,
    opset: int = 20,
) -> onnx.ModelProto:
    """Build a model of any types; ``outputs`` maps names to element types."""

    def value(name: str, kind: object, dims: Sequence[int] | None) -> onnx.ValueInfoProto:
        element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        return helper.make_tensor_value_info(name, element, dims)

    graph = helper.make_graph(
        list(nodes),
        "graph",
        [value(name, array.dtype, array.shape) for name, array in inputs.items()],
        [value(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def assert_as_reference(proto: onnx.ModelProto, inputs: dict[str, np.ndarray], tmp_path) -> None:
    """Run a model compiled in float and by ONNX's reference: shapes and types are equal too."""
    onnx.save(proto, tmp_path / "net.onnx")
    found = relay_int8.float_network(relay_int8.load_model(tmp_path / "net.onnx"))(inputs)
    with np.errstate(all="ignore"):
        wanted = ReferenceEvaluator(proto).run(None, inputs)
    for value, array in zip(proto.graph.output, wanted, strict=True):
        assert (found[value.name].shape, found[value.name].dtype) == (array.shape, array.dtype)
        np.testing.assert_allclose(found[value.name], array, rtol=1e-5, atol=1e-5)


def test_kernels_of_scalars(tmp_path):
    """Operators that have kernels of ours take tensors; of scalars they stay TVM's."""
    nodes = [
        node("ReduceMax", ["x"], ["m"], keepdims=0),
        node("ReduceMin", ["x"], ["n"], keepdims=0),
        node("Add", ["m", "n"], ["a"]),
        node("Clip", ["a", "low", "high"], ["c"]),
        node("Reshape", ["c", "one"], ["y"]),
    ]
    weights = {"low": np.float32(-1), "high": np.float32(1), "one": np.array([1])}
    weights = {name: np.asarray(value) for name, value in weights.items()}
    assert_as_reference(typed(nodes, {"x": X}, {"y": "float32"}, weights), {"x": X}, tmp_path)


@pytest.mark.fast
def test_scalars_keep_no_axis(tmp_path):
    """An input, a result and a folded constant without axes."""
    nodes = [
        node("ReduceSum", ["w"], ["s"], keepdims=0),
        node("Add", ["x", "s"], ["a"]),
        node("Exp", ["a"], ["y"]),
    ]
    inputs = {"x": np.array(0.5, "float32")}
    proto = typed(nodes, inputs, {"y": "float32"}, {"w": np.array([[0.25, 0.5]], "float32")})
    assert_as_reference(proto, inputs, tmp_path)


ELEMENTWISE = {
    "infinity": (node("IsInf", ["x"], ["y"]), INFINITIES, None, "bool"),
    "positive": (node("IsInf", ["x"], ["y"], detect_negative=0), INFINITIES, None, "bool"),
    "negative": (node("IsInf", ["x"], ["y"], detect_positive=0), INFINITIES, None, "bool"),
    "leaky": (node("LeakyRelu", ["x"], ["y"], alpha=0.2), X[0, 0, 0], None, "float32"),
    "cube": (
        node("Pow", ["x", "w"], ["y"]),
        np.array([[-3, 2, 46341]], "int32"),
        np.array([[0], [1], [3]], "int64"),
        "int32",
    ),
    "root": (
        node("Pow", ["x", "w"], ["y"]),
        np.array([1, 4, 9], "float32"),
        np.array(2, "int64"),
        "float32",
    ),
    "all": (node("ReduceMin", ["x", "w"], ["y"]), X[0] > -1, np.array([1]), "bool"),
    "any": (node("ReduceMax", ["x", "w"], ["y"]), X[0] > 1, np.array([0, 2]), "bool"),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elements(name: str, tmp_path):
    made, x, w, kind = ELEMENTWISE[name]
    proto = typed([made], {"x": x}, {"y": kind}, {} if w is None else {"w": w})
    assert_as_reference(proto, {"x": x}, tmp_path)


def test_remainders_of_infinities(tmp_path):
    inputs = {
        "x": np.array([-3, 3, -1, 1, np.inf, 1, 5.5, -5.5], "float32"),
        "w": np.array([np.inf, np.inf, -np.inf, -np.inf, 2, 0, 2, -2], "float32"),
    }
    proto = typed([node("Mod", ["x", "w"], ["y"], fmod=0)], inputs, {"y": "float32"})
    assert_as_reference(proto, inputs, tmp_path)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("kind", ["int8", "int32", "uint16"])
def test_shifts_by_any_number(kind: str, direction: str, tmp_path):
    """The reference shifts as the processor does; the standard lets all bits fall out."""
    width = 8 * np.dtype(kind).itemsize
    signed = kind.startswith("i")
    by = np.array([width - 1, width, -2 * width if signed else 2 * width], kind)
    x = np.array([77, 100, -101 if signed else 101], kind)
    nodes = [node("BitShift", ["x", "by"], ["y"], direction=direction)]
    proto = typed(nodes, {"x": x, "by": by}, {"y": kind})
    onnx.save(proto, tmp_path / "net.onnx")
    found = relay_int8.float_network(relay_int8.load_model(tmp_path / "net.onnx"))(
        {"x": x, "by": by}
    )["y"]
    falls_out = (by < 0) | (by >= width)
    amount = np.where(falls_out, 0, by).astype(int)
    moved = (x.astype(int) << amount if direction == "LEFT" else x.astype(int) >> amount).astype(
        kind
    )
    rest = np.where(x < 0, -1, 0) if direction == "RIGHT" else np.zeros_like(x)
    assert found.dtype == kind
    np.testing.assert_array_equal(found, np.where(falls_out, rest.astype(kind), moved))


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_space_to_depth_undoes_depth_to_space(mode: str, tmp_path):
    nodes = [
        node("DepthToSpace", ["x"], ["d"], blocksize=2, mode=mode),
        node("Relu", ["d"], ["r"]),
        node("SpaceToDepth", ["r"], ["y"], blocksize=2, mode=mode),
    ]
    onnx.save(typed(nodes, {"x": X}, {"y": "float32"}), tmp_path / "net.onnx")
    found = relay_int8.float_network(relay_int8.load_model(tmp_path / "net.onnx"))({"x": X})["y"]
    np.testing.assert_array_equal(found, np.maximum(X, 0))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_layer_normalization_has_three_results(axis: int, tmp_path):
    x = RNG.normal(size=(3, 4, 5)).astype("float32")
    w, b = RNG.normal(size=(2, *x.shape[axis:])).astype("float32")
    nodes = [node("LayerNormalization", ["x", "w", "b"], ["y", "mean", "scale"], axis=axis)]
    kinds = dict.fromkeys(("y", "mean", "scale"), "float32")
    assert_as_reference(typed(nodes, {"x": x}, kinds, {"w": w, "b": b}), {"x": x}, tmp_path)


@pytest.mark.parametrize("axis", [0, 1, -2])
def test_rms_normalization_over_any_axes(axis: int, tmp_path):
    x = RNG.normal(size=(3, 4)).astype("float32")
    weights = {"w": RNG.normal(size=x.shape[axis:]).astype("float32")}
    nodes = [node("RMSNormalization", ["x", "w"], ["y"], axis=axis)]
    proto = typed(nodes, {"x": x}, {"y": "float32"}, weights, opset=23)
    assert_as_reference(proto, {"x": x}, tmp_path)


@pytest.mark.parametrize("op", ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "SumSquare"])
def test_reductions_of_no_axis(op: str, tmp_path):
    x = np.abs(X) + 0.1 if op == "LogSum" else X
    nodes = [node(f"Reduce{op}", ["x", "none"], ["y"], noop_with_empty_axes=1)]
    proto = typed(nodes, {"x": x}, {"y": "float32"}, {"none": np.array([], "int64")})
    assert_as_reference(proto, {"x": x}, tmp_path)


BROADCAST = {
    "one number": (2, (1,), ()),
    "by row": (1, (3, 1), (3, 4)),
    "for the last axis of several": (1, (4,), (1, 4)),
    "an extent that the first axis has too": (1, (3,), (3,)),
    "for an axis before": (2, (2, 1, 1), (4,)),
    "a bias for an axis before": (2, (4,), (3, 1)),
}


@pytest.mark.parametrize("case", BROADCAST)
@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
def test_scales_of_norms_that_are_broadcast(case: str, op: str, tmp_path):
    axis, *parameters = BROADCAST[case]
    x = RNG.normal(size=(2, 3, 3 if case.startswith("an extent") else 4)).astype("float32")
    w, b = (RNG.normal(size=dims).astype("float32") for dims in parameters)
    axes = tuple(range(axis, 3))
    centred = x - x.mean(axes, keepdims=True) if op[0] == "L" else x
    wanted = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5) * w
    weights = {"w": w, "b": b} if op[0] == "L" else {"w": w}
    proto = typed(
        [node(op, ["x", *weights], ["y"], axis=axis)], {"x": x}, {"y": "float32"}, weights, opset=23
    )
    onnx.save(proto, tmp_path / "net.onnx")
    found = relay_int8.float_network(relay_int8.load_model(tmp_path / "net.onnx"))({"x": x})["y"]
    np.testing.assert_allclose(found, wanted + b if "b" in weights else wanted, atol=1e-5)


COMPUTED = {
    "conv": ("Conv", (3, 2, 3), {"pads": [1, 1]}),
    "transposed": ("ConvTranspose", (2, 3, 3), {"strides": [2]}),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_a_sequence_under_computed_weights(name: str, tmp_path):
    kind, dims, attributes = COMPUTED[name]
    inputs = {"x": X[:, :2, 0], "w": RNG.normal(size=dims).astype("float32")}
    proto = typed([node(kind, ["x", "w"], ["y"], **attributes)], inputs, {"y": "float32"})
    assert_as_reference(proto, inputs, tmp_path)


def test_a_product_of_constants_is_one(tmp_path):
    weights = {"a": X[0, 0], "b": X[0, 1], "c": X[0, 2]}
    inputs = {"x": X[0, 3]}
    nodes = [node("Gemm", ["a", "b", "x"], ["g"], alpha=0.5, transA=1), node("Relu", ["g"], ["y"])]
    assert_as_reference(typed(nodes, inputs, {"y": "float32"}, weights), inputs, tmp_path)


def test_constant_offsets_of_a_deformable_convolution(tmp_path):
    """In float, and behind a layer in integers: such samples stay in float."""
    weights = {
        "k": RNG.normal(size=(4, 4, 1, 1)).astype("float32"),
        "w": RNG.normal(size=(3, 4, 2, 2)).astype("float32"),
        "o": RNG.normal(size=(1, 8, 5, 5)).astype("float32"),
    }
    nodes = [
        node("Conv", ["x", "k"], ["c"]),
        node("DeformConv", ["c", "w", "o"], ["y"]),
    ]
    proto = typed(nodes, {"x": X}, {"y": "float32"}, weights)
    assert_as_reference(proto, {"x": X}, tmp_path)
    relay_int8.compile_model(tmp_path / "net.onnx", [X], tmp_path / "net.ri8", samples=1)
    found = relay_int8.load(tmp_path / "net.ri8").run({"x": X})["y"]
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": X})
    assert np.abs(found - wanted).max() < 0.03 * np.abs(wanted).max()


@pytest.mark.parametrize("axes", [[2, 3], [3, 2]])
def test_a_region_of_axes_in_any_order(axes: list[int], tmp_path):
    weights = {"r": np.array([0.2, 0.4, 0.7, 0.9], "float32"), "n": np.array([3, 3])}
    made = node(
        "Resize",
        ["x", "r", "", "n"],
        ["y"],
        axes=axes,
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
    )
    assert_as_reference(typed([made], {"x": X}, {"y": "float32"}, weights), {"x": X}, tmp_path)


def test_weights_that_are_normalized_by_their_own_statistics():
    """As a network with weight standardization computes them in each run."""
    w = RNG.normal(size=(1, 4, 6)).astype("float32")
    gamma, beta = RNG.uniform(0.5, 1.5, (2, 4)).astype("float32")
    nodes = [
        node("BatchNormalization", ["w", "g", "b", "b", "g"], ["n", "m", "v"], training_mode=1),
        node("Reshape", ["n", "dims"], ["k"]),
        node("Conv", ["x", "k"], ["y"]),
    ]
    weights = {"w": w, "g": gamma, "b": beta, "dims": np.array([4, 6, 1, 1])}
    x = RNG.normal(size=(1, 6, 3, 5)).astype("float32")
    proto = typed(nodes, {"x": x}, {"y": "float32"}, weights)
    apart = w[0] - w[0].mean(axis=1, keepdims=True)
    deviation = np.sqrt(w[0].var(axis=1, keepdims=True) + 1e-5)
    kernel = apart / deviation * gamma[:, None] + beta[:, None]
    mod = import_onnx(proto)
    np.testing.assert_allclose(
        run_relax(mod, x)[0], np.einsum("oc,nchw->nohw", kernel, x), rtol=0, atol=1e-5
    )
    assert [operator(value) for _, value in calls(normalize()(mod)["main"])] == ["nn.conv2d"]


CHANNEL = RNG.uniform(0.5, 1.5, size=4).astype("float32")
REFUSED = {
    "training": (
        [node("BatchNormalization", ["x", *"wwww"], ["y", "m", "v"], "bn", training_mode=1)],
        {"y": "float32"},
        r"node bn \(BatchNormalization\) of opset 20.*export the model in evaluation mode",
    ),
    "chance": (
        [node("Dropout", ["x", "", "true"], ["y"], "drop")],
        {"y": "float32"},
        r"node drop \(Dropout\) of opset 20.*by chance",
    ),
    "choice": (
        [
            node("ReduceMax", ["x"], ["m"], keepdims=0),
            node("Cast", ["m"], ["trains"], to=9),
            node("Dropout", ["x", "", "trains"], ["y"], "drop"),
        ],
        {"y": "float32"},
        r"node drop \(Dropout\) of opset 20.*inputs.*ImportOptions\(values=",
    ),
    "indices": (
        [node("GlobalMaxPool", ["x"], ["y", "places"], "pool")],
        {"y": "float32", "places": "int64"},
        r"node pool \(GlobalMaxPool\) of opset 20: its output places \(number 2\) is not supported",
    ),
    "read": (
        [
            node("GlobalMaxPool", ["x"], ["p", "places"], "pool"),
            node("Cast", ["places"], ["y"], to=1),
        ],
        {"y": "float32"},
        r"its output places \(number 2\) is not supported",
    ),
    "dynamic": (
        [node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])],
        {"y": "uint8"},
        "output y is of integers in the file, of float32 here",
    ),
    "maxima": (
        [
            node("ReduceMean", ["x", "axes"], ["f"], keepdims=0),
            node("RoiAlign", ["x", "f", "zero"], ["y"], "roi", mode="max"),
        ],
        {"y": "float32"},
        r"node roi \(RoiAlign\) of opset 20.*use avg",
    ),
    "unpooled": (
        [
            node("MaxPool", ["x"], ["p", "i"], kernel_shape=[2, 2], strides=[2, 2]),
            node("MaxUnpool", ["p", "i", "of"], ["y"], "un", kernel_shape=[2, 2], strides=[2, 2]),
        ],
        {"y": "float32"},
        r"node un \(MaxUnpool\) of opset 20.*its indices count pixels of the shape without it",
    ),
    "scale": (
        [
            node("ReduceMax", ["x"], ["s"], keepdims=0),
            node("QuantizeLinear", ["w", "s"], ["q"], "pair"),
            node("DequantizeLinear", ["q", "s"], ["y"]),
        ],
        {"y": "float32"},
        r"node pair \(QuantizeLinear\) of opset 20.*write them as constants",
    ),
    "part": (
        [
            node(
                "Resize",
                ["x", "", "scales"],
                ["y"],
                "grown",
                mode="linear",
                coordinate_transformation_mode="align_corners",
            )
        ],
        {"y": "float32"},
        r"node grown \(Resize\) of opset 20.*a part of a pixel.*export it with sizes",
    ),
    "narrow": (
        [
            node("Cast", ["x"], ["q"], "cast", to=onnx.TensorProto.INT4),
            node("Cast", ["q"], ["y"], to=1),
        ],
        {"y": "float32"},
        r"node cast \(Cast\) of opset 20 cannot be imported: elements of int4",
    ),
}


@pytest.mark.fast
@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str):
    nodes, outputs, reason = REFUSED[name]
    weights = {
        "w": CHANNEL,
        "true": np.array(True),
        "axes": np.array([2]),
        "scales": np.array([1, 1, 1.3, 1.3], "float32"),
        "zero": np.zeros(1, "int64"),
        "of": np.array([*X.shape[:2], 9, 9]),
    }
    with pytest.raises(UnsupportedOpError, match=reason):
        import_onnx(typed(nodes, {"x": X}, outputs, weights))


def test_a_power_of_integers_that_is_computed_is_refused():
    integers = np.array([1, 2], "int32")
    proto = typed([node("Pow", ["x", "y"], ["z"])], {"x": integers, "y": integers}, {"z": "int32"})
    with pytest.raises(UnsupportedOpError, match="cast the base to float"):
        import_onnx(proto)


def test_sorting_of_other_integers_is_refused():
    x, k = np.array([3, 1, 2], "uint64"), np.array([2])
    proto = typed([node("TopK", ["x", "k"], ["y", "i"])], {"x": x}, {"y": "uint64"}, {"k": k})
    with pytest.raises(UnsupportedOpError, match="it sorts uint64"):
        import_onnx(proto)


def test_bfloat16_is_read_as_float32(tmp_path):
    """Weights, constants and the input; the result is what float32 gives of them."""
    weight = RNG.normal(size=(4, 3)).astype("float32")
    rounded = helper.make_tensor("w", onnx.TensorProto.BFLOAT16, weight.shape, weight.ravel())
    x = helper.make_tensor_value_info("x", onnx.TensorProto.BFLOAT16, [2, 4])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.BFLOAT16, [2, 3])
    graph = helper.make_graph([node("MatMul", ["x", "w"], ["y"])], "graph", [x], [y], [rounded])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8),
        tmp_path / "net.onnx",
    )
    given = RNG.normal(size=(2, 4)).astype("float32")
    found = relay_int8.float_network(relay_int8.load_model(tmp_path / "net.onnx"))({"x": given})[
        "y"
    ]
    wanted = given @ numpy_helper.to_array(rounded).astype("float32")
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_what_onnx_cannot_convert_is_said():
    """An initializer has another shape than the input that it is the default of."""
    w = np.ones((4, 1, 1), "float32")
    proto = typed([node("PRelu", ["x", "w"], ["y"])], {"x": X, "w": w}, {"y": "float32"}, opset=9)
    proto.graph.initializer.append(numpy_helper.from_array(w.reshape(1, 4, 1), "w"))
    with pytest.raises(relay_int8.Int8Error, match="ONNX cannot convert it to 13"):
        import_onnx(proto)


def test_initializers_that_are_no_inputs_in_an_old_format(tmp_path):
    """ONNX's converter of opsets refuses them before IR 4, and ONNX Runtime runs them."""
    proto = typed([node("And", ["x", "w"], ["y"])], {"x": X > 0}, {"y": "bool"}, {"w": X > 1}, 7)
    proto.ir_version = 3
    assert_as_reference(proto, {"x": X > 0}, tmp_path)


@pytest.mark.parametrize("axis", [0, 2, None])
def test_a_hardmax_of_old_opsets_is_of_all_axes_from_one_on(axis: int | None):
    attributes = {} if axis is None else {"axis": axis}
    nodes = [node("Hardmax", ["x"], ["y"], **attributes)]
    proto = typed(nodes, {"x": X}, {"y": "float32"}, opset=11)
    rows = X.reshape(int(np.prod(X.shape[: 1 if axis is None else axis])), -1)
    wanted = np.eye(rows.shape[1], dtype="float32")[rows.argmax(1)].reshape(X.shape)
    np.testing.assert_array_equal(run_relax(import_onnx(proto), X)[0], wanted)


def test_a_node_without_results_is_named_by_its_operator():
    proto = typed([node("Relu", ["x"], ["y"]), node("Fake", ["x"], [])], {"x": X}, {"y": "float32"})
    assert title_of(proto.graph.node[1]) == "Fake"


def test_an_input_without_a_shape_has_the_one_that_is_asked_for():
    model = typed([node("Relu", ["x"], ["y"])], {"x": X}, {"y": "float32"})
    model.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(FrontendError, match=r"input x has no shape in the file; say .*inputs="):
        import_onnx(model)
    (y,) = run_relax(import_onnx(model, inputs={"x": X.shape}), X)
    assert np.array_equal(y, np.maximum(X, 0))


@pytest.mark.parametrize("kind", ["float32", "int32"])
@pytest.mark.parametrize(("lambd", "bias"), [(1.5, 1.5), (-6.0, 5.0), (0.5, 0.25)])
def test_shrink(kind: str, lambd: float, bias: float):
    x = (X * 4).astype(kind)
    shrink = node("Shrink", ["x"], ["y"], lambd=lambd, bias=bias)
    (y,) = run_relax(import_onnx(typed([shrink], {"x": x}, {"y": kind})), x)
    above = np.where(x > lambd, x - np.float32(bias), 0)
    assert np.array_equal(y, np.where(x < -lambd, x + np.float32(bias), above).astype(kind))


@pytest.mark.parametrize(("axis", "order"), [(-1, 2), (1, 2), (2, 1)])
def test_lp_normalization(axis: int, order: int):
    x = X.copy()
    x[0, 1] = 0
    norm = node("LpNormalization", ["x"], ["y"], axis=axis, p=order)
    (y,) = run_relax(import_onnx(typed([norm], {"x": x}, {"y": "float32"})), x)
    sizes = np.linalg.norm(x, order, axis, keepdims=True)
    np.testing.assert_allclose(y, x / np.where(sizes == 0, 1, sizes), rtol=1e-6)


@pytest.mark.parametrize("dims", [(1, 1), (2, 2), (3, 2, 3, 3), (2, 4, 4)])
def test_determinants(dims, tmp_path):
    x = RNG.normal(size=dims).astype("float32")
    proto = typed([node("Det", ["x"], ["y"])], {"x": x}, {"y": "float32"})
    assert_as_reference(proto, {"x": x}, tmp_path)


def test_determinants_of_larger_matrices_are_refused():
    x = np.zeros((5, 5), "float32")
    with pytest.raises(UnsupportedOpError, match="matrices of 5 rows; 4 are the most"):
        import_onnx(typed([node("Det", ["x"], ["y"])], {"x": x}, {"y": "float32"}))


def test_no_axes_are_all_axes():
    """As in ONNX Runtime: an empty list names no axis, and all of extent 1 are removed."""
    axes = {"a": np.zeros(0, "int64")}
    proto = typed([node("Squeeze", ["x", "a"], ["y"])], {"x": X[:, :1]}, {"y": "float32"}, axes)
    (found,) = run_relax(import_onnx(proto), X[:, :1])
    np.testing.assert_array_equal(found, X[0, 0])


@pytest.mark.parametrize("axis", [None, -1, 1])
def test_elements_that_a_constant_chooses(axis, tmp_path):
    condition = {"c": np.array([True, False, True, True])}
    attributes = {} if axis is None else {"axis": axis}
    nodes = [node("Compress", ["x", "c"], ["y"], **attributes)]
    assert_as_reference(typed(nodes, {"x": X}, {"y": "float32"}, condition), {"x": X}, tmp_path)


def test_a_shape_that_is_computed_is_refused():
    sizes = np.array([2, 3])
    proto = typed([node("ConstantOfShape", ["s"], ["y"])], {"s": sizes}, {"y": "float32"})
    with pytest.raises(UnsupportedOpError, match="the shape of its result is computed, not const"):
        import_onnx(proto)


def test_random_numbers_are_refused():
    proto = typed([node("RandomNormalLike", ["x"], ["y"])], {"x": X}, {"y": "float32"})
    with pytest.raises(UnsupportedOpError, match="its numbers are random, others in every run"):
        import_onnx(proto)


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_means_of_integers_are_integers(kind, opset, tmp_path):
    x = np.array([[4, 8, 12], [-3, 3, 9]], kind)
    weights = {"a": np.array([1])} if opset == 18 else {}
    axes = {} if weights else {"axes": [1]}
    for name in ("ReduceMean", "ReduceL2"):
        nodes = [node(name, ["x", *weights], ["y"], keepdims=0, **axes)]
        proto = typed(nodes, {"x": x}, {"y": kind}, weights, opset)
        if name == "ReduceL2":
            (found,) = run_relax(import_onnx(proto), x)
            np.testing.assert_array_equal(found, [14, 9])
            assert found.dtype == kind
        else:
            assert_as_reference(proto, {"x": x}, tmp_path)
