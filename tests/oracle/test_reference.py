"""The integer oracle on whole graphs: float islands, names, inputs, and what it does not share."""

import ast
from pathlib import Path

import numpy as np
import pytest
from tvm import relax
from tvm.relax import op as R

from tests.qdq_builder import QdqBuilder
from tests.reference import output_names, run

U8 = np.uint8
pytestmark = pytest.mark.fast


def island():
    net = QdqBuilder()
    x = net.quantized(net.input("x", ("n", 2)), 1.0)
    p = net.emit("p", R.nn.softmax(x, axis=1))
    y = net.emit("y", R.negative(net.quantized(p, 1 / 256, 0, "uint8")))
    return net.module(net.quantized(y, 1 / 128))


def test_softmax_is_a_float_island():
    tensors = run(island(), {"x": np.array([[0.4, -0.3], [1.2, 0.0]], np.float32)})
    np.testing.assert_array_equal(tensors["x:q"], [[0, 0], [1, 0]])
    np.testing.assert_allclose(tensors["p"], [[0.5, 0.5], [0.7310586, 0.2689414]], rtol=1e-6)
    np.testing.assert_array_equal(tensors["p:q"], [[128, 128], [187, 69]])
    np.testing.assert_array_equal(tensors["y:q"], [[-64, -64], [-94, -34]])  # -93.5, -34.5


def test_given_tensors_replace_the_computed_ones():
    given = {"p": np.array([[0.25, 0.75]], np.float32)}
    tensors = run(island(), {"x": np.zeros((1, 2), np.float32)}, given=given)
    np.testing.assert_array_equal(tensors["y:q"], [[-32, -96]])
    with pytest.raises(ValueError, match=r"\['q'\] are not in the module"):
        run(island(), {"x": np.zeros((1, 2), np.float32)}, given={"q": np.zeros(1)})


def test_integer_inputs_are_taken_as_they_are():
    net = QdqBuilder()
    x = net.input("x", (2,), "uint8")
    s_z = relax.const(np.float32(0.5)), relax.const(np.uint8(4))
    y = net.emit("y", R.nn.relu(net.emit("x:dq", R.dequantize(x, *s_z))))
    tensors = run(net.module(net.quantized(y, 0.25)), {"x": np.array([3, 9], U8)})
    np.testing.assert_array_equal(tensors["y:q"], [0, 10])


def test_outputs_are_named_in_their_order():
    net = QdqBuilder()
    x = net.input("x", ("n", 2))
    parts = [net.emit(name, R.negative(x)) for name in ("late", "early")]
    assert output_names(net.module(*parts, x), {"x": np.zeros((1, 2))}) == ["late", "early", "x"]


def test_unknown_operators_and_wrong_inputs_are_refused():
    net = QdqBuilder()
    mod = net.module(net.emit("y", R.tan(net.input("x", (2,)))))
    with pytest.raises(NotImplementedError, match="operator tan"):
        run(mod, {"x": np.zeros(2, np.float32)})
    with pytest.raises(ValueError, match="shape"):
        run(mod, {"x": np.zeros(3, np.float32)})
    with pytest.raises(ValueError, match=r"\['x', 'z'\] are missing or unknown"):
        run(mod, {"z": np.zeros(2, np.float32)})


def test_it_shares_no_code_with_what_it_judges():
    here = Path(__file__).parents[1]
    files = [here / "reference.py", *(here / "oracle").glob("[!t]*.py")]
    assert len(files) >= 6
    roots = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                roots |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                roots.add("relative" if node.level else str(node.module).split(".")[0])
    standard = {"__future__", "collections", "dataclasses", "fractions", "functools", "json"}
    assert roots <= standard | {"math", "operator", "typing", "numpy", "tests", "tvm"}
