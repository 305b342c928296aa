"""TFLite files with more than operators on tensors of known shapes: loops, states, open extents."""

import numpy as np
import pytest

import relay_int8
from relay_int8 import QuantConfig
from relay_int8.errors import ConfigError, FrontendError, UnsupportedOpError
from relay_int8.graph.dataflow import calls, is_quantized, operator, results, shape
from relay_int8.notices import Notice
from relay_int8.quantization.adopt import adopt
from tests.adopted_networks import run_on
from tests.mxnet_models import run_fast
from tests.tflite_models import (
    TYPES,
    TfliteModel,
    run_interpreter,
    run_stream,
    schema,
    set_scale,
)
from tests.x86_targets import FASTEST


def test_categories_may_be_integers_with_a_scale(tmp_path):
    """One-hot categories as TFLite's converter quantizes them, in front of a dense layer."""
    net = TfliteModel(4)
    at = net.op("ARG_MAX", net.input("x", (3, 6)), net.constant(1), options="ArgMaxOptions",
                dtype="int32", outputType=2)  # fmt: skip
    ends = [net.tensor(name, (), "int8", np.int8(q)) for name, q in (("on", 127), ("off", -128))]
    y = net.op("ONE_HOT", at, net.constant(6), *ends, options="OneHotOptions", axis=-1,
               dtype="int8")  # fmt: skip
    for index in (*ends, y):
        set_scale(net, index, 1 / 255, -128)
    net.graph.tensors[y].shape = [3, 6]
    net.graph.outputs = [net.op("DEQUANTIZE", y)]
    net.graph.tensors[net.graph.outputs[0]].shape = [3, 6]
    (x,) = net.inputs()
    (found,) = run_fast(net.imported(tmp_path), x)
    np.testing.assert_allclose(found, np.eye(6)[x.argmax(1)], atol=1e-6)


def inner(net: TfliteModel) -> TfliteModel:
    """Return another graph of the same file, in the making."""
    other = TfliteModel(1)
    other.model = net.model
    net.model.subgraphs.append(other.graph)
    return other


def typed(net: TfliteModel, shapes: dict[int, tuple[int, ...]]) -> None:
    """Write the shapes of a graph that TFLite's interpreter does not tell."""
    for index, dims in shapes.items():
        net.graph.tensors[index].shape = list(dims)


def compared(net: TfliteModel, tmp_path, count: int = 1) -> None:
    """Run a float model here and in TFLite."""
    inputs = net.inputs()
    found = run_fast(net.imported(tmp_path), *inputs)
    expected = run_interpreter(net, inputs)
    assert len(found) == len(expected) == count
    for y, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-5)


def test_a_constant_result(tmp_path):
    """The shape of an input, which is known."""
    net = TfliteModel()
    x = net.input("x", (1, 4))
    sizes = net.op("SHAPE", x, options="ShapeOptions", outType=TYPES["int32"], dtype="int32")
    file = tmp_path / "sizes.tflite"
    file.write_bytes(net.finish(net.dense(x, 3, 4), sizes).written())
    run = relay_int8.float_network(relay_int8.load_model(file))
    _, found = run({"x": np.ones((1, 4), "float32")}).values()
    np.testing.assert_array_equal(found, [1, 4])


def loop(bound: int) -> TfliteModel:
    """Add row i of a table to the state, and halve it, while i is below a bound."""
    net = TfliteModel(2)
    x = net.input("x", (2, 3))
    condition, body = inner(net), inner(net)
    i, state = condition.input("i", (1,), "int32"), condition.input("state", (2, 3))
    limit = condition.constant([bound])
    condition.graph.outputs = [
        condition.op("LESS", i, limit, options="LessOptions", dtype="bool", name="go")
    ]
    typed(condition, {condition.graph.outputs[0]: (1,)})
    i, state = body.input("i", (1,), "int32"), body.input("state", (2, 3))
    table = body.weights(bound, 3)
    row = body.op("GATHER", table, i, options="GatherOptions")
    total = body.op("ADD", state, row, options="AddOptions")
    half = body.op("MUL", total, body.constant(np.float32(0.5), "float32"), options="MulOptions")
    after = body.op("ADD", i, body.constant([1]), options="AddOptions", dtype="int32")
    body.graph.outputs = [after, half]
    typed(body, {row: (1, 3), total: (2, 3), half: (2, 3), after: (1,)})
    start = net.constant([0])
    last, y = net.op("WHILE", start, x, results=2, options="WhileOptions", condSubgraphIndex=1,
                     bodySubgraphIndex=2)  # fmt: skip
    net.graph.tensors[last].type = 2
    typed(net, {last: (1,), y: (2, 3)})
    return net.finish(net.op("TANH", y))


def test_a_loop_is_written_out(tmp_path):
    compared(loop(4), tmp_path)


def list_item():
    """Write the first item of a list: nothing before it, itself, what stood behind it."""
    net = TfliteModel(4)
    x, item = net.input("x", (5, 3)), net.input("item", (1, 3))
    nothing, rest = (
        net.op("SLICE", x, net.constant(begin), net.constant(size), options="SliceOptions")
        for begin, size in (((0, 0), (0, 3)), ((1, 0), (-1, 3)))
    )
    return net.finish(
        net.op("CONCATENATION", nothing, item, rest, options="ConcatenationOptions", axis=0)
    )


def test_a_list_is_filled_from_its_first_item_on(tmp_path):
    compared(list_item(), tmp_path)


def test_a_loop_that_never_ends_is_refused(tmp_path):
    net = loop(4)
    net.model.subgraphs[2].outputs = net.model.subgraphs[2].inputs
    with pytest.raises(UnsupportedOpError, match="loops of more than 2048 runs"):
        net.imported(tmp_path)


def composite() -> TfliteModel:
    """An operator that a graph spells out."""
    net = TfliteModel(3)
    x = net.input("x", (2, 3))
    spelled = inner(net)
    a = spelled.input("a", (2, 3))
    square = spelled.op("MUL", a, a, options="MulOptions")
    spelled.graph.outputs = [square]
    typed(spelled, {square: (2, 3)})
    y = net.op("STABLEHLO_COMPOSITE", x, name="square")
    (operator,) = net.graph.operators
    operator.builtinOptions2Type = schema.BuiltinOptions2.StableHLOCompositeOptions
    operator.builtinOptions2 = schema.StableHLOCompositeOptionsT()
    operator.builtinOptions2.name = "square"
    operator.builtinOptions2.decompositionSubgraphIndex = 1
    typed(net, {y: (2, 3)})
    net.graph.outputs = [net.op("NEG", y, options="NegOptions")]
    typed(net, {net.graph.outputs[0]: (2, 3)})
    return net


def test_a_composite_is_what_its_graph_says(tmp_path):
    net = composite()
    (x,) = net.inputs()
    np.testing.assert_allclose(run_fast(net.imported(tmp_path), x)[0], -x * x, atol=1e-6)


def test_graphs_that_run_themselves_are_refused(tmp_path):
    net = composite()
    options = net.graph.operators[0].builtinOptions2
    options.decompositionSubgraphIndex = 0
    net.model.subgraphs.pop()
    with pytest.raises(FrontendError, match=r"it runs graph 0, 16 graphs deep"):
        net.imported(tmp_path)


def branch(*, is_computed: bool = False) -> TfliteModel:
    """Negate, or square, by a condition."""
    net = TfliteModel(3)
    x = net.input("x", (2, 3))
    for kind, options in (("NEG", "NegOptions"), ("SQUARE", "SquareOptions")):
        side = inner(net)
        y = side.op(kind, side.input("a", (2, 3)), options=options)
        side.graph.outputs = [y]
        typed(side, {y: (2, 3)})
    condition = net.constant([False], "bool")
    if is_computed:
        largest = net.op("REDUCE_MAX", x, net.constant((0, 1)), options="ReducerOptions")
        zero = net.constant(np.float32(0), "float32")
        condition = net.op("GREATER", largest, zero, options="GreaterOptions", dtype="bool")
    y = net.op("IF", condition, x, options="IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
    net.graph.outputs = [net.op("TANH", y)]
    typed(net, {y: (2, 3), net.graph.outputs[0]: (2, 3)})
    return net


def test_a_branch_by_a_constant_is_taken(tmp_path):
    net = branch()
    (x,) = net.inputs()
    np.testing.assert_allclose(run_fast(net.imported(tmp_path), x)[0], np.tanh(x * x), atol=1e-5)


def test_a_branch_by_an_input_is_selected(tmp_path):
    net = branch(is_computed=True)
    mod = net.imported(tmp_path)
    for x in (net.inputs()[0], -np.abs(net.inputs()[0])):
        found = run_fast(mod, x)[0]
        np.testing.assert_allclose(found, run_interpreter(net, [x])[0], atol=1e-5)
        np.testing.assert_allclose(found, np.tanh(-x if x.max() > 0 else x * x), atol=1e-5)


def test_a_branch_of_other_shapes_is_refused(tmp_path):
    net = branch(is_computed=True)
    other = net.model.subgraphs[2]
    for tensor in other.tensors:
        tensor.shape = [1]
    inside = inner(net).constant(np.zeros((1, 3), "float32"), "float32")
    other.tensors.append(net.model.subgraphs[3].tensors[inside])
    net.model.subgraphs.pop()
    other.outputs = [len(other.tensors) - 1]
    with pytest.raises(UnsupportedOpError, match=r"result 0 is \[2, 3\] float32 or \[1, 3\]"):
        net.imported(tmp_path)


def lstm(
    *,
    steps: int = 5,
    clip: float = 0.0,
    time_major: bool = False,
    peepholes: bool = False,
    norms: bool = False,
    projected: int = 0,
    projection_clip: float = 0.0,
) -> TfliteModel:
    net, width = TfliteModel(4), projected or 4
    x = net.input("x", (steps, 2, 6) if time_major else (2, steps, 6))
    of_input = [net.weights(4, 6, scale=0.7) for _ in range(4)]
    of_state = [net.weights(4, width, scale=0.7) for _ in range(4)]
    peeps = [net.weights(4, scale=0.5) if peepholes else -1 for _ in range(3)]
    biases = [net.weights(4, scale=0.5) for _ in range(4)]
    projection = [-1, -1]
    if projected:
        projection = [net.weights(projected, 4, scale=0.7), net.weights(projected, scale=0.3)]
    states = [net.tensor("output", (2, width)), net.tensor("memory", (2, 4))]
    for state in states:
        net.graph.tensors[state].isVariable = True
    factors = [net.weights(4, scale=0.7) if norms else -1 for _ in range(4)]
    rest = [*projection, *states, *factors]
    y = net.op("UNIDIRECTIONAL_SEQUENCE_LSTM", x, *of_input, *of_state, *peeps, *biases, *rest,
               options="UnidirectionalSequenceLSTMOptions", fusedActivationFunction=4,
               cellClip=clip, projClip=projection_clip, timeMajor=time_major)  # fmt: skip
    return net.finish(y)


@pytest.mark.parametrize(
    "options",
    [{}, {"clip": 0.3}, {"time_major": True}, {"peepholes": True}, {"projected": 3},
     {"projected": 3, "projection_clip": 0.2}, {"norms": True}, {"norms": True, "peepholes": True}],
    ids=str,
)  # fmt: skip
def test_lstm(tmp_path, options):
    compared(lstm(**options), tmp_path)


@pytest.mark.parametrize("options", [{}, {"projected": 3, "time_major": True}], ids=str)
def test_an_lstm_of_single_steps_hands_its_states_on(tmp_path, options):
    net = lstm(steps=1, **options)
    with pytest.warns(Notice, match=r"keeps 2 variables .* output \(0.0\), memory \(0.0\)"):
        mod = net.imported(tmp_path)
    steps = [net.inputs(seed) for seed in range(4)]
    states = [np.zeros(shape(param), "float32") for param in mod["main"].params[1:]]
    for inputs, (wanted,) in zip(steps, run_stream(net, steps), strict=True):
        y, *states = run_fast(mod, *inputs, *states)
        np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-5)


def integer_lstm(steps: int, projected: int = 0) -> TfliteModel:
    """Return an LSTM of int8, whose memory is int16, as TFLite's converter writes it."""
    net = TfliteModel(9)
    x = net.input("x", (1, steps, 6), "int8")
    set_scale(net, x, 0.03, 5)

    def _integers(values: np.ndarray, scale: float, dtype: str) -> int:
        index = net.constant(np.rint(values / scale), dtype)
        net.graph.tensors[index].quantization = schema.QuantizationParametersT(
            scale=[scale], zeroPoint=[0]
        )
        return index

    scales, width = net.rng.uniform(0.01, 0.03, 8), projected or 4
    weights = [
        _integers(net.rng.normal(0, 0.7, (4, 6 if i < 4 else width)).clip(-1, 1), scale, "int8")
        for i, scale in enumerate(scales)
    ]
    biases = [_integers(net.rng.normal(0, 0.5, 4), 0.03 * scale, "int32") for scale in scales[:4]]
    projection = [-1, -1]
    if projected:
        rows = net.rng.normal(0, 0.7, (projected, 4)).clip(-1, 1)
        bias = net.rng.normal(0, 0.2, projected)
        projection = [_integers(rows, 0.01, "int8"), _integers(bias, 0.01 * 0.0078, "int32")]
    states = [net.tensor("output", (1, width), "int8"), net.tensor("memory", (1, 4), "int16")]
    set_scale(net, states[0], 0.0075, -3)
    net.graph.tensors[states[1]].quantization = schema.QuantizationParametersT(
        scale=[2.0**-12], zeroPoint=[0]
    )
    for state in states:
        net.graph.tensors[state].isVariable = True
    rest = [*projection, *states, -1, -1, -1, -1]
    y = net.op("UNIDIRECTIONAL_SEQUENCE_LSTM", x, *weights, -1, -1, -1, *biases, *rest,
               options="UnidirectionalSequenceLSTMOptions", fusedActivationFunction=4,
               dtype="int8")  # fmt: skip
    set_scale(net, y, 0.0075, -3)
    between = [net.tensor(f"between{i}", (0,), "int8") for i in range(5)]
    for index in between:
        set_scale(net, index, 0.0078 if projected else 0.0075, 0 if projected else -3)
    net.graph.operators[0].intermediates = between
    return net.finish(y)


def test_lstm_of_integers(tmp_path):
    """Its products are of integers; TFLite's gates have 16 bits, ours are floats."""
    net = integer_lstm(12)
    adopted = adopt(net.imported(tmp_path), QuantConfig(require_int8="products"))
    products = [layer.name for layer in adopted.plan.layers if layer.kind == "dense"]
    assert len(products) == 12  # the state is zero in the first step
    inputs = net.inputs()
    names = [str(param.name) for param in adopted.mod["main"].params]
    (found,) = run_on(adopted, FASTEST, dict(zip(names, inputs, strict=True)))
    (expected,) = run_interpreter(net, inputs)
    steps = np.abs(found.astype(int) - expected)
    assert steps.max() <= 1
    assert (steps > 0).mean() < 0.1


def test_lstm_of_integers_that_projects_its_output(tmp_path):
    net = integer_lstm(7, projected=3)
    inputs = net.inputs()
    (found,) = run_fast(net.imported(tmp_path), *inputs)
    steps = np.abs(found.astype(int) - run_interpreter(net, inputs)[0])
    assert steps.max() <= 2  # its projection is in float here
    assert np.abs(found.astype(int)).mean() > 20


def test_a_state_that_is_read_otherwise_is_refused(tmp_path):
    net = TfliteModel(5)
    x, state = net.input("x", (2, 3)), net.tensor("kept", (2, 3))
    net.graph.tensors[state].isVariable = True
    net.graph.outputs = [net.op("ADD", x, state, options="AddOptions")]
    with pytest.raises(UnsupportedOpError, match="reads kept, a state kept between runs"):
        net.imported(tmp_path)


def fully_convolutional() -> TfliteModel:
    net = TfliteModel(6)
    x = net.input("image", (1, 9, 8, 3))
    net.finish(net.conv(x, 4, 3, 3))
    for tensor in (net.graph.tensors[x], net.graph.tensors[net.graph.outputs[0]]):
        tensor.shapeSignature = [-1, -1, -1, tensor.shape[3]]
        tensor.shape = [1, 1, 1, tensor.shape[3]]
    return net


def test_open_extents_are_chosen(tmp_path):
    net = fully_convolutional()
    mod = net.imported(tmp_path, inputs={"image": (1, 12, 10, 3)})
    assert shape(results(mod["main"])[0]) == (1, 12, 10, 4)
    assert shape(results(net.imported(tmp_path, inputs={"image": (3, 6, 5, 3)})["main"])[0]) == (
        3, 6, 5, 4,
    )  # fmt: skip
    with pytest.raises(FrontendError, match="image leaves dimension 1 open"):
        net.imported(tmp_path)
    with pytest.raises(ConfigError, match="only extents that it leaves open"):
        net.imported(tmp_path, inputs={"image": (1, 12, 10, 4)})


def test_a_table_of_integers_leaves_the_network_float(tmp_path):
    """Dynamic range quantization has tables of int8, whose rows are read as reals."""
    net = TfliteModel(7)
    places = net.input("places", (2, 5), "int32")
    table = net.constant(np.arange(-30, 30).reshape(10, 6), "int8")
    net.graph.tensors[table].quantization = schema.QuantizationParametersT(
        scale=[0.25], zeroPoint=[3]
    )
    rows = net.op("GATHER", table, places, options="GatherOptions", dtype="int8")
    net.graph.tensors[rows].quantization = net.graph.tensors[table].quantization
    net.finish(net.op("DEQUANTIZE", rows, options="DequantizeOptions"))
    mod = net.imported(tmp_path)
    assert not is_quantized(mod)
    assert [operator(call) for _, call in calls(mod["main"])] == ["take"]
    x = np.array([[0, 3, 9, 1, 1], [2, 2, 8, 7, 0]], "int32")
    wanted = (np.arange(-30, 30).reshape(10, 6)[x] - 3) * 0.25
    np.testing.assert_array_equal(run_fast(mod, x)[0], wanted)


def test_open_extents_by_options(tmp_path):
    path = tmp_path / "open.tflite"
    path.write_bytes(fully_convolutional().written())
    options = relay_int8.ImportOptions(inputs={"image": (1, 8, 8, 3)})
    assert relay_int8.load_model(path, options).inputs[0].shape == (1, 8, 8, 3)


def test_wide_integers_stay_wide(tmp_path):
    """Of shapes and of constants; TVM makes int32 of int64 where it is not told so."""
    net = TfliteModel(8)
    x = net.input("x", (2, 3))
    sizes = net.op("SHAPE", x, options="ShapeOptions", outType=4, dtype="int64")
    twice = net.op("MUL", sizes, net.constant([2], "int64"), options="MulOptions", dtype="int64")
    net.finish(twice, net.op("NEG", x, options="NegOptions"))
    found, _ = run_fast(net.imported(tmp_path), *net.inputs())
    assert found.dtype == np.int64 and found.tolist() == [4, 6]


def test_a_quantized_fill_is_of_reals(tmp_path):
    """The first state of a quantized recurrent layer is written so."""
    net = TfliteModel(9)
    x, value = net.input("x", (2, 3)), net.constant(5, "int8")
    filled = net.op("FILL", net.constant((2, 3)), value, options="FillOptions", dtype="int8")
    for index in (value, filled):
        net.graph.tensors[index].quantization = schema.QuantizationParametersT(
            scale=[0.5], zeroPoint=[1]
        )
    reals = net.op("DEQUANTIZE", filled, options="DequantizeOptions")
    net.finish(net.op("ADD", x, reals, options="AddOptions"))
    (given,) = net.inputs()
    np.testing.assert_allclose(run_fast(net.imported(tmp_path), given)[0], given + 2, atol=1e-6)
