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
    return customs(net, kind, options, [shape], *inputs)[0]


def customs(net: TfliteModel, kind: str, options: bytes, shapes, *inputs: int):
    """Add an operator that is not TFLite's, of several results."""
    entry = schema.OperatorCodeT(deprecatedBuiltinCode=32, builtinCode=32, customCode=kind)
    net.model.operatorCodes.append(entry)
    results = [net.tensor(f"y{len(net.graph.tensors)}", shape) for shape in shapes]
    net.graph.operators.append(
        schema.OperatorT(
            opcodeIndex=len(net.model.operatorCodes) - 1, inputs=list(inputs), outputs=results,
            customOptions=list(options),
        )
    )  # fmt: skip
    return results


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


def unpooled(padding: int, rows: int, height: int, strides: tuple[int, int]) -> TfliteModel:
    """Return a model that pools, and puts what it found back where it was (hair segmentation)."""
    net = TfliteModel(2)
    x = net.input("x", (1, height, 6, 3))
    out = -(-height // rows) if padding == SAME else height // rows
    pooled = struct.pack("<6i", padding, 2, rows, 2, rows, 0)
    shape = (1, out, 3, 3)
    maxima, offsets = customs(net, "MaxPoolingWithArgmax2D", pooled, [shape, shape], x)
    halved = net.op("RELU", maxima)
    net.graph.tensors[halved].shape = list(shape)
    options = struct.pack("<6i", VALID, *strides, 2, rows, 0)  # XNNPACK takes no other padding
    y = custom(net, "MaxUnpooling2D", options, (1, out * rows, 6, 3), halved, offsets)
    net.graph.outputs = [maxima, y]
    return net


@pytest.mark.parametrize(
    ("padding", "rows", "height"), [(VALID, 2, 6), (SAME, 2, 5), (SAME, 3, 8), (VALID, 3, 10)]
)
def test_maxima_are_put_back_where_they_were(tmp_path, padding, rows, height):
    net = unpooled(padding, rows, height, (2, rows))
    x = np.random.default_rng(4).normal(size=(1, height, 6, 3)).astype("float32")
    found = run_fast(net.imported(tmp_path), x)
    for array, wanted in zip(found, run_interpreter(net, [x], "xnnpack"), strict=True):
        np.testing.assert_array_equal(array, wanted)


def test_unpooling_of_windows_that_overlap_is_refused(tmp_path):
    with pytest.raises(UnsupportedOpError, match="windows of 2 x 2 with strides"):
        unpooled(SAME, 2, 6, (1, 2)).imported(tmp_path)


def detector() -> TfliteModel:
    """Return a network that ends in an operator that only TFLite's own runtime has."""
    net = TfliteModel(1)
    x = net.input("x", (1, 6))
    boxes = net.op("RELU", x)
    scores = net.op("LOGISTIC", boxes)
    net.graph.outputs = [custom(net, "OfTheirOwn", b"", (1, 6), boxes, scores)]
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
