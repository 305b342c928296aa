"""Variables of TFLite files: inputs and results that are handed from run to run."""

import numpy as np
import pytest

from relay_int8.errors import FrontendError, UnsupportedOpError
from relay_int8.graph.dataflow import dtype, results, shape
from relay_int8.notices import Notice
from relay_int8.quantization.adopt import adopt
from tests.adopted_networks import run_on
from tests.mxnet_models import run_fast
from tests.tflite_models import TYPES, TfliteModel, run_stream, schema, set_scale
from tests.x86_targets import FASTEST

STEPS = 6


def inner(net: TfliteModel) -> TfliteModel:
    """Return another graph of the same file, in the making."""
    other = TfliteModel(1)
    other.model = net.model
    net.model.subgraphs.append(other.graph)
    return other


def handle(net: TfliteModel, name: str) -> int:
    return net.op(
        "VAR_HANDLE", options="VarHandleOptions", dtype="resource", sharedName=name, container=""
    )


def read(net: TfliteModel, variable: int, dims: tuple[int, ...], dtype: str = "float32") -> int:
    index = net.op("READ_VARIABLE", variable, options="ReadVariableOptions", dtype=dtype)
    net.graph.tensors[index].shape = list(dims)
    return index


def assign(net: TfliteModel, variable: int, value: int) -> None:
    net.op("ASSIGN_VARIABLE", variable, value, options="AssignVariableOptions", results=0)


def begin(net: TfliteModel, **first: np.ndarray) -> None:
    """Assign variables once, before the first run."""
    once = inner(net)
    for name, values in first.items():
        assign(once, handle(once, name), once.constant(values, values.dtype.name))
    net.op("CALL_ONCE", options="CallOnceOptions", results=0, initSubgraphIndex=1)


def running_sum(*, is_assigned: bool = True) -> TfliteModel:
    """Add x to a sum that begins at one, and return twice the sum."""
    net = TfliteModel(1)
    x = net.input("x", (2, 3))
    begin(net, sum=np.ones((2, 3), "float32"))
    variable = handle(net, "sum")
    total = net.op("ADD", x, read(net, variable, (2, 3)), options="AddOptions", name="total")
    if is_assigned:
        assign(net, variable, total)
        total = read(net, variable, (2, 3))
    y = net.op("ADD", total, total, options="AddOptions", name="y")
    for tensor in net.graph.tensors[-3:]:
        tensor.shape = [2, 3]
    net.graph.outputs = [y]
    net.graph.tensors[net.graph.operators[2].outputs[0]].shape = [2, 3]
    return net


def test_a_variable_is_an_input_and_a_result(tmp_path):
    net = running_sum()
    with pytest.warns(Notice, match=r"keeps 1 variables .* the file has sum \(1\.0\)$"):
        mod = net.imported(tmp_path)
    assert [str(param.name) for param in mod["main"].params] == ["x", "sum"]
    assert [str(var.name) for var in results(mod["main"])] == ["y", "sum/next"]
    steps = [net.inputs(seed) for seed in range(STEPS)]
    state = np.ones((2, 3), "float32")
    for inputs, (wanted,) in zip(steps, run_stream(net, steps, "optimized"), strict=True):
        y, state = run_fast(mod, *inputs, state)
        np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-6)


def test_a_variable_that_nothing_assigns_is_a_constant(tmp_path):
    net = running_sum(is_assigned=False)
    mod = net.imported(tmp_path)
    assert len(mod["main"].params) == 1
    (x,) = net.inputs()
    np.testing.assert_allclose(run_fast(mod, x)[0], 2 * (x + 1), rtol=0, atol=1e-6)


def stream() -> TfliteModel:
    """Convolve the last five frames in int8, of which a run brings two."""
    net = TfliteModel(2)
    x = net.input("x", (1, 2, 1, 4), "int8")
    begin(net, frames=np.full((1, 3, 1, 4), -3, "int8"))
    variable = handle(net, "frames")
    old = read(net, variable, (1, 3, 1, 4), "int8")
    frames = net.op("CONCATENATION", old, x, options="ConcatenationOptions", axis=1, dtype="int8")
    cut = [net.constant(bounds) for bounds in ((0, 2, 0, 0), (-1, -1, -1, -1))]
    last = net.op("SLICE", frames, *cut, options="SliceOptions", dtype="int8")
    assign(net, variable, last)
    for index in (x, old, frames, last):
        set_scale(net, index, 0.05, -3)
    w = net.constant(net.rng.integers(-127, 128, (4, 5, 1, 4)), "int8")
    b = net.constant(net.rng.integers(-2000, 2000, 4), "int32")
    set_scale(net, w, 0.01, 0)
    net.graph.tensors[b].quantization = schema.QuantizationParametersT(
        scale=[0.0005], zeroPoint=[0]
    )
    y = net.op(
        "CONV_2D", frames, w, b, options="Conv2DOptions", padding=1, strideW=1, strideH=1,
        dtype="int8", name="y",
    )  # fmt: skip
    set_scale(net, y, 0.08, 7)
    for index, dims in {frames: (1, 5, 1, 4), last: (1, 3, 1, 4), y: (1, 1, 1, 4)}.items():
        net.graph.tensors[index].shape = list(dims)
    net.graph.outputs = [y]
    return net


def test_a_stream_in_integers(tmp_path):
    """Every step of a stream equals XNNPACK's, to the bit."""
    net = stream()
    with pytest.warns(Notice, match=r"the file has frames \(-3\)$"):
        mod = net.imported(tmp_path)
    assert [dtype(var) for var in results(mod["main"])] == ["int8", "int8"]
    adopted = adopt(mod)
    assert all(layer.integer for layer in adopted.plan.layers)
    rng = np.random.default_rng(3)
    steps = [[rng.integers(-128, 128, (1, 2, 1, 4)).astype("int8")] for _ in range(STEPS)]
    state = np.full((1, 3, 1, 4), -3, "int8")
    for (x,), (wanted,) in zip(steps, run_stream(net, steps), strict=True):
        y, state = run_on(adopted, FASTEST, {"x": x, "frames": state}, fewest=4)
        np.testing.assert_array_equal(y, wanted)


def test_a_batch_of_streams(tmp_path):
    with pytest.warns(Notice):
        mod = stream().imported(tmp_path, batch=3)
    assert [shape(param)[0] for param in mod["main"].params] == [3, 3]


def test_what_the_file_has_before_the_first_run(tmp_path):
    net = running_sum()
    net.model.buffers[1].data = np.arange(6, dtype="float32").view(np.uint8)
    with pytest.warns(Notice, match=r"sum \(values that differ\)$"):
        net.imported(tmp_path)
    net = running_sum()
    net.graph.operators.pop(0)
    net.model.subgraphs.pop()
    with pytest.warns(Notice, match=r"sum \(no values\)$"):
        net.imported(tmp_path)


def test_a_constant_variable_without_values_is_refused(tmp_path):
    net = running_sum(is_assigned=False)
    net.graph.operators.pop(0)
    net.model.subgraphs.pop()
    with pytest.raises(FrontendError, match="variable sum has no values"):
        net.imported(tmp_path)


def test_variables_of_two_scales_or_shapes_are_refused(tmp_path):
    net = stream()
    set_scale(net, net.graph.operators[4].outputs[0], 0.06, -3)
    with pytest.raises(UnsupportedOpError, match="is read with one scale and assigned with anoth"):
        net.imported(tmp_path)
    net = running_sum()
    net.graph.operators[4].inputs[1] = net.constant(np.zeros((2, 4), "float32"), "float32")
    with pytest.raises(
        UnsupportedOpError, match=r"read as \[2, 3\] float32 and assigned as \[2, 4"
    ):
        net.imported(tmp_path)


def test_an_assignment_in_a_branch_is_refused(tmp_path):
    net = running_sum()
    (x,) = net.graph.inputs
    for sign in (1, -1):
        side = inner(net)
        y = side.op("NEG", side.input("a", (2, 3)), options="NegOptions")
        side.graph.tensors[y].shape = [2, 3]
        side.graph.outputs = [y]
        if sign < 0:
            assign(side, handle(side, "sum"), y)
    condition = net.constant([True], "bool")
    y = net.op("IF", condition, x, options="IfOptions", thenSubgraphIndex=3, elseSubgraphIndex=2)
    net.graph.tensors[y].shape = [2, 3]
    net.graph.outputs = [y]
    with pytest.raises(UnsupportedOpError, match="sum is assigned in a loop or a branch"):
        net.imported(tmp_path)


def test_a_handle_of_another_graph_is_refused(tmp_path):
    net = running_sum()
    net.graph.operators[2].inputs[0] = net.input("v", (), "resource")
    with pytest.raises(UnsupportedOpError, match="READ_VARIABLE of a variable that another graph"):
        net.imported(tmp_path)


FILTERS, LENGTH = 6, 4


def svdf(rank: int, *, is_integer: bool = False) -> TfliteModel:
    """A layer that filters features over the last runs; TFLite's state of integers is int16."""
    net = TfliteModel(3)
    x, state = net.input("x", (2, 5)), net.tensor("kept", (2, FILTERS * LENGTH))
    net.graph.tensors[state].isVariable = True
    features, filters = net.weights(FILTERS, 5, scale=0.5), net.weights(FILTERS, LENGTH, scale=0.3)
    bias = net.weights(FILTERS // rank, scale=0.2)
    y = net.op("SVDF", x, features, filters, bias, state, options="SVDFOptions", rank=rank,
               fusedActivationFunction=1, name="y")  # fmt: skip
    net.graph.tensors[y].shape = [2, FILTERS // rank]
    net.graph.outputs = [y]
    if is_integer:
        for index, scale, zero, dtype in (
            (x, 0.03, 5, "int8"), (features, 0.01, 0, "int8"), (filters, 2.0**-14, 0, "int16"),
            (bias, 2.0**-26, 0, "int32"), (state, 2.0**-12, 0, "int16"), (y, 0.01, -128, "int8"),
        ):  # fmt: skip
            tensor = net.graph.tensors[index]
            if tensor.buffer:
                values = net.model.buffers[tensor.buffer].data.view("float32")
                info = np.iinfo(dtype)
                q = np.rint(values / scale).clip(info.min, info.max).astype(dtype)
                net.model.buffers[tensor.buffer].data = q.view(np.uint8)
            set_scale(net, index, scale, zero)
            tensor.type = TYPES[dtype]
    return net


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("is_integer", [False, True])
def test_filters_over_runs_keep_their_features(tmp_path, rank, is_integer):
    net = svdf(rank, is_integer=is_integer)
    with pytest.warns(Notice, match=r"the file has kept \(0\.0\)$"):
        mod = net.imported(tmp_path)
    steps = [net.inputs(seed) for seed in range(STEPS)]
    state, seen = np.zeros((2, FILTERS * LENGTH), "float32"), set()
    for inputs, (wanted,) in zip(steps, run_stream(net, steps, "optimized"), strict=True):
        y, state = run_fast(mod, *inputs, state)
        atol = 1 if is_integer else 1e-6
        np.testing.assert_allclose(y.astype(float), wanted.astype(float), rtol=0, atol=atol)
        seen.update(wanted.ravel().tolist())
    assert len(seen) > 5


def test_filters_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(FrontendError, match=r"its weights are \(6, 5\) and \(6, 4\) for 5 inputs"):
        svdf(4).imported(tmp_path)
