"""Functions that an ONNX model brings along are read as what they consist of."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from relay_int8.errors import FrontendError
from relay_int8.frontend.onnx import import_onnx
from tests.onnx_models import assert_close, model, run_onnx, run_relax

pytestmark = pytest.mark.fast
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 8)).astype("float32")
W = RNG.normal(size=(8, 8)).astype("float32")
LARGE = RNG.normal(size=(8, 200)).astype("float32")  # large enough to be left out when inlining
LIBRARY = "my.library"
node = helper.make_node


def function(
    name: str,
    inputs: Sequence[str],
    nodes: Sequence[onnx.NodeProto],
    opset: int = 17,
    **defaults: float,
) -> onnx.FunctionProto:
    """Return a function of one result, ``y``."""
    return helper.make_function(
        LIBRARY,
        name,
        list(inputs),
        ["y"],
        list(nodes),
        [helper.make_opsetid("", opset), helper.make_opsetid(LIBRARY, 1)],
        attribute_protos=[helper.make_attribute(*item) for item in defaults.items()],
    )


def call(name: str, inputs: Sequence[str], output: str, **attributes: float) -> onnx.NodeProto:
    return node(name, list(inputs), [output], domain=LIBRARY, **attributes)


def with_functions(
    nodes: Sequence[onnx.NodeProto], functions: Sequence[onnx.FunctionProto], opset: int = 17
) -> onnx.ModelProto:
    proto = model(nodes, {"x": X.shape}, {"out": None}, {"w": W, "large": LARGE}, opset)
    proto.opset_import.append(helper.make_opsetid(LIBRARY, 1))
    proto.functions.extend(functions)
    return proto


def dense() -> onnx.FunctionProto:
    return function("Dense", ["x", "w"], [node("MatMul", ["x", "w"], ["p"]), relu("p", "y")])


def relu(x: str, y: str) -> onnx.NodeProto:
    return node("Relu", [x], [y])


def sloped() -> onnx.FunctionProto:
    """Return a function whose node takes an attribute from the call, 0.2 by default."""
    leaky = node("LeakyRelu", ["x"], ["y"])
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    return function("Sloped", ["x"], [leaky], slope=0.2)


def nested() -> onnx.FunctionProto:
    inner = [call("Dense", ["x", "w"], "t"), node("Add", ["x", "t"], ["y"])]
    return function("Residual", ["x", "w"], inner)


def both() -> onnx.FunctionProto:
    """Return a function of a second result, and of an operand that may be left out."""
    nodes = [node("Clip", ["x", "", ""], ["c"]), relu("c", "y"), node("Neg", ["c"], ["z"])]
    made = function("Both", ["x", "unused"], nodes)
    made.output.append("z")
    return made


CASES = {
    "a call": with_functions(
        [call("Dense", ["x", "w"], "h"), call("Dense", ["h", "large"], "out")], [dense()]
    ),
    "calls in calls": with_functions([call("Residual", ["x", "w"], "out")], [dense(), nested()]),
    "attributes": with_functions(
        [call("Sloped", ["x"], "a"), call("Sloped", ["a"], "out", slope=0.5)], [sloped()]
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_onnxruntime(name: str):
    proto = CASES[name]
    assert_close(run_relax(import_onnx(proto), X), run_onnx(proto, X))


def test_a_function_of_an_older_opset():
    """ONNX Runtime refuses it."""
    mean = function("Mean", ["x"], [node("ReduceMean", ["x"], ["y"], axes=[1])], opset=13)
    proto = with_functions([call("Mean", ["x"], "out")], [mean], opset=18)
    assert_close(run_relax(import_onnx(proto), X), [X.mean(axis=1, keepdims=True)])


def test_versions_of_a_functions_domain_differ():
    """jax2onnx gives it 1 in the model and the opset's number in the functions."""
    functions = [dense(), nested()]
    for written in functions:
        written.opset_import[1].version = 17
    proto = with_functions([call("Residual", ["x", "w"], "out")], functions)
    assert_close(run_relax(import_onnx(proto), X), run_onnx(proto, X))


def test_a_function_of_the_standard_domain_leaves_the_opset_alone():
    square = function("Square", ["x"], [node("Mul", ["x", "x"], ["y"])])
    square.domain = ""
    proto = with_functions([node("Square", ["x"], ["out"])], [square])
    assert_close(run_relax(import_onnx(proto), X), [X * X])


def test_a_call_leaves_operands_and_results_out():
    """ONNX infers no shapes then, and ONNX Runtime refuses it."""
    proto = with_functions([call("Both", ["x", ""], "h"), call("Both", ["h"], "out")], [both()])
    assert_close(run_relax(import_onnx(proto), X), [np.maximum(X, 0)])


def test_a_call_in_a_branch():
    """A constant choice between a call and something else."""
    branches = [
        helper.make_graph(
            nodes, "branch", [], [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)]
        )
        for nodes in ([call("Dense", ["x", "w"], "b")], [relu("x", "b")])
    ]
    chosen = node("If", ["yes"], ["out"], then_branch=branches[0], else_branch=branches[1])
    proto = with_functions([chosen], [dense()])
    proto.graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
    assert_close(run_relax(import_onnx(proto), X), [np.maximum(X @ W, 0)])


def test_other_floats_of_a_function():
    """Its casts to float16 become casts to float32, as those of the graph do."""
    halved = function(
        "Half",
        ["x"],
        [
            node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
            node("Constant", [], ["two"], value=numpy_helper.from_array(np.full(8, 2, "float16"))),
            node("Mul", ["h", "two"], ["t"]),
            node("Cast", ["t"], ["y"], to=TensorProto.FLOAT),
        ],
    )
    mod = import_onnx(with_functions([call("Half", ["x"], "out")], [halved]))
    np.testing.assert_array_equal(run_relax(mod, X)[0], X * 2)


def test_the_model_is_left_alone():
    proto = CASES["a call"]
    before = proto.SerializeToString(deterministic=True)
    import_onnx(proto)
    assert proto.SerializeToString(deterministic=True) == before


def test_a_function_that_calls_itself():
    loop = function("Loop", ["x"], [call("Loop", ["x"], "y")])
    with pytest.raises(FrontendError, match=r"cannot be inlined: .Cycle detected.*Loop"):
        import_onnx(with_functions([call("Loop", ["x"], "out")], [loop]))
