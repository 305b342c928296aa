"""Custom operators of MediaPipe, which XNNPACK computes."""

import ast
import struct

import numpy as np
import pytest

from relay_int8.errors import ConfigError, FrontendError, UnsupportedOpError
from relay_int8.graph.dataflow import results
from tests.mxnet_models import run_fast
from tests.tflite_models import TfliteModel, run_interpreter, schema

SAME, VALID = 1, 2


def custom(net: TfliteModel, kind: str, options: bytes, shape: tuple[int, ...], *inputs: int):
    """Add an operator that is not TFLite's."""
    entry = schema.OperatorCodeT(deprecatedBuiltinCode=32, builtinCode=32, customCode=kind)
    net.model.operatorCodes.append(entry)
    y = net.tensor("y", shape)
    net.graph.operators.append(
        schema.OperatorT(
            opcodeIndex=len(net.model.operatorCodes) - 1, inputs=list(inputs), outputs=[y],
            customOptions=list(options),
        )
    )  # fmt: skip
    return y


def transposed(padding: int, kernel: int, out: int, options: bytes | None = None) -> TfliteModel:
    net = TfliteModel(1)
    x, w = net.input("x", (1, 5, 4, 6)), net.weights(3, kernel, kernel, 6, scale=0.3)
    given = struct.pack("<3i", padding, 2, 2) if options is None else options
    shape = (1, out, out - 2, 3)
    y = custom(net, "Convolution2DTransposeBias", given, shape, x, w, net.weights(3))
    net.graph.outputs = [y]
    return net


@pytest.mark.parametrize(
    ("padding", "kernel", "out"), [(SAME, 2, 10), (SAME, 4, 10), (VALID, 2, 10), (VALID, 3, 11)]
)
def test_transposed_convolutions(tmp_path, padding, kernel, out):
    net = transposed(padding, kernel, out)
    (x,) = net.inputs()
    (found,) = run_fast(net.imported(tmp_path), x)
    (wanted,) = run_interpreter(net, [x], "xnnpack")
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("padding", "options", "message"),
    [(SAME, b"\1\0\0\0", "has 4 bytes of options"), (3, None, "its padding is 3"),
     (0, None, "its padding is 0, not 1 or more")],
)  # fmt: skip
def test_options_that_do_not_fit_are_refused(tmp_path, padding, options, message):
    with pytest.raises(FrontendError, match=message):
        transposed(padding, 2, 10, options).imported(tmp_path)


def detector() -> TfliteModel:
    """Return a network that ends in an operator that only TFLite's own runtime has."""
    net = TfliteModel(1)
    x = net.input("x", (1, 6))
    boxes = net.op("RELU", x)
    scores = net.op("LOGISTIC", boxes)
    net.graph.outputs = [custom(net, "TFLite_Detection_PostProcess", b"", (1, 6), boxes, scores)]
    return net


def test_outputs_that_a_user_names_cut_the_network(tmp_path):
    net = detector()
    with pytest.raises(UnsupportedOpError, match="make outputs of what they read") as refused:
        net.imported(tmp_path)
    names = ast.literal_eval(str(refused.value).rpartition("outputs=")[2].rstrip(")"))
    mod = net.imported(tmp_path, outputs=names[::-1])
    assert [str(var.name) for var in results(mod["main"])] == names[::-1]
    x = np.array([[-2, -1, 0, 1, 2, 3]], "float32")
    scores, boxes = run_fast(mod, x)
    np.testing.assert_array_equal(boxes, np.maximum(x, 0))
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-boxes)), rtol=1e-6)
    with pytest.raises(ConfigError, match=r"outputs=\['no'\]\): the file computes no such tensor"):
        net.imported(tmp_path, outputs=["no"])
