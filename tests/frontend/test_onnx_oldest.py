"""Models of opsets 1 to 6 against the same operators of today, in ONNX Runtime."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from relay_int8.errors import FrontendError, UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from tests.onnx_models import assert_close, model, run_onnx, run_relax

pytestmark = pytest.mark.fast
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 4, 5)).astype("float32")
node = helper.make_node
OF_CHANNELS = RNG.uniform(0.5, 2, 3).astype("float32")
OF_ROWS = RNG.uniform(0.5, 2, (3, 4)).astype("float32")
WEIGHTS = {"c": OF_CHANNELS, "r": OF_ROWS, "k": RNG.uniform(1, 2, 5).astype("float32"),
           "m": RNG.normal(size=(60, 7)).astype("float32"),
           "v": RNG.normal(size=7).astype("float32")}  # fmt: skip
NEW = {"c": OF_CHANNELS.reshape(3, 1, 1), "r": OF_ROWS[:, :, None]}
SIZES = {"s": np.array([2, -1], "int64"), "two": np.array([1, 1, 2, 3], "float32")}
BINARY = {"broadcast": 1, "axis": 1}

# Name -> opset, nodes of that opset, nodes of opset 9.
CASES = {
    "add-channels": (6, [node("Add", ["x", "c"], ["y"], **BINARY)], [node("Add", ["x", "c"], ["y"])]),
    "mul-rows": (1, [node("Mul", ["x", "r"], ["y"], consumed_inputs=[0, 0], **BINARY)],
                 [node("Mul", ["x", "r"], ["y"])]),
    "div-columns": (6, [node("Div", ["x", "k"], ["y"], broadcast=1)], [node("Div", ["x", "k"], ["y"])]),
    "sub-from-behind": (6, [node("Sub", ["x", "c"], ["y"], broadcast=1, axis=-3)],
                        [node("Sub", ["x", "c"], ["y"])]),
    "prelu": (6, [node("PRelu", ["x", "c"], ["y"])], [node("PRelu", ["x", "c"], ["y"])]),
    "norm": (6, [node("BatchNormalization", ["x", "c", "c", "c", "c"], ["y", "", "", "a", "b"], is_test=1)],
             [node("BatchNormalization", ["x", *["flat"] * 4], ["y"])]),
    "norm-1": (1, [node("BatchNormalization", ["x", "c", "c", "c", "c"], ["y"], is_test=1, spatial=1,
                        consumed_inputs=[0, 0, 0, 1, 1])],
               [node("BatchNormalization", ["x", *["flat"] * 4], ["y"])]),
    "reshape": (1, [node("Reshape", ["x"], ["y"], shape=[2, -1], consumed_inputs=[0])],
                [node("Reshape", ["x", "s"], ["y"])]),
    "dense": (6, [node("Reshape", ["x", "s"], ["f"]), node("Dropout", ["f"], ["d"], is_test=1),
                  node("Gemm", ["d", "m", "v"], ["y"], broadcast=1)],
              [node("Reshape", ["x", "s"], ["f"]), node("Gemm", ["f", "m", "v"], ["y"])]),
    "concat": (1, [node("Concat", ["x", "x"], ["y"])], [node("Concat", ["x", "x"], ["y"], axis=1)]),
    "pad": (1, [node("Pad", ["x"], ["y"], paddings=[0, 0, 1, 0, 0, 0, 2, 1], mode="reflect")],
            [node("Pad", ["x"], ["y"], pads=[0, 0, 1, 0, 0, 0, 2, 1], mode="reflect")]),
    "clip": (1, [node("Clip", ["x"], ["y"], max=0.5, consumed_inputs=[0])],
             [node("Clip", ["x"], ["y"], max=0.5)]),
    "leaky": (1, [node("LeakyRelu", ["x"], ["y"], alpha=0.2, consumed_inputs=[0])],
              [node("LeakyRelu", ["x"], ["y"], alpha=0.2)]),
    "upsample": (1, [node("Upsample", ["x"], ["y"], height_scale=2.0, width_scale=3.0, mode="nearest")],
                 [node("Upsample", ["x", "two"], ["y"], mode="nearest")]),
    "split": (1, [node("Split", ["x", "parts"], ["a", "b"], axis=1), node("Concat", ["b", "a"], ["y"])],
              [node("Split", ["x"], ["a", "b"], axis=1, split=[1, 2]),
               node("Concat", ["b", "a"], ["y"], axis=1)]),
    "cast": (1, [node("Cast", ["x"], ["i"], to="INT32"), node("Cast", ["i"], ["y"], to="FLOAT")],
             [node("Cast", ["x"], ["i"], to=6), node("Cast", ["i"], ["y"], to=1)]),
}  # fmt: skip


def constants(nodes: list[onnx.NodeProto], values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    read = {name for each in nodes for name in each.input}
    return {name: array for name, array in values.items() if name in read}


@pytest.mark.parametrize("name", CASES)
def test_equals_the_operator_of_today(name):
    opset, old, new = CASES[name]
    parts = {"parts": np.array([1, 2], "int64")}
    before = model(
        old, {"x": X.shape}, {"y": None}, constants(old, {**WEIGHTS, **SIZES, **parts}), opset
    )
    given = {**WEIGHTS, **NEW, **SIZES, "flat": OF_CHANNELS}
    after = model(new, {"x": X.shape}, {"y": None}, constants(new, given), 9)
    assert_close(run_relax(import_onnx(before), X), run_onnx(after, X))


def test_a_file_without_an_opset_has_the_first():
    built = model([node("Relu", ["x"], ["y"], consumed_inputs=[0])], {"x": X.shape}, {"y": None})
    del built.opset_import[:]
    built.ir_version = 2
    np.testing.assert_array_equal(run_relax(import_onnx(built), X)[0], np.maximum(X, 0))


def test_a_constant_node_is_known():
    sizes = numpy_helper.from_array(np.array([1, 2], "int64"))
    nodes = [node("Constant", [], ["parts"], value=sizes), *CASES["split"][1]]
    built = model(nodes, {"x": X.shape}, {"y": None}, opset=1)
    np.testing.assert_array_equal(run_relax(import_onnx(built), X)[0], X[:, [1, 2, 0]])


def test_axes_that_do_not_fit_are_refused():
    built = model([node("Add", ["x", "r"], ["y"], broadcast=1, axis=3)], {"x": X.shape}, {"y": None},
                  {"r": OF_ROWS}, 6)  # fmt: skip
    with pytest.raises(UnsupportedOpError, match=r"axis 3 of \[2, 3, 4, 5\] for \[3, 4\]"):
        import_onnx(built)


@pytest.mark.parametrize(
    "damaged",
    [
        node("Cast", ["x"], ["y"]),
        node("Cast", ["x"], ["y"], to="WORDS"),
        node("Add", ["x"], ["y"], broadcast=1, axis=1),
        node("Upsample", ["x"], ["y"], width_scale=2.0),
        onnx.NodeProto(op_type="Constant", output=["y"]),
    ],
    ids=["no type", "no such type", "one operand", "one scale", "no value"],
)
def test_damaged_nodes_are_errors_of_the_file(damaged):
    built = model([damaged], {"x": X.shape}, {"y": None}, opset=1)
    with pytest.raises(FrontendError, match=rf"\({damaged.op_type}\) of an opset before 7 lacks"):
        import_onnx(built)
