"""Operators written as ONNX nodes: ONNX Runtime computes what TVM does."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import UnsupportedOpError
from relay_int8.export.qdq import export_qdq
from relay_int8.frontend.onnx import import_onnx
from tests.frontend.test_onnx import CASES, X
from tests.onnx_models import assert_close, model, run_onnx, run_relax
from tests.small_networks import NetworkWriter

op, nn = relax.op, relax.op.nn
UNARY = (
    "abs", "atan", "ceil", "cos", "erf", "exp", "floor", "negative", "round", "sigmoid", "sign",
    "sin", "square", "tanh", "nn.relu", "nn.selu", "nn.softplus", "nn.silu", "nn.gelu",
    "nn.gelu_tanh",
)  # fmt: skip
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "greater", "less_equal",
          "not_equal")  # fmt: skip
IDS = np.array([2, 0, 1], "int64")
OTHER = {
    "clip": lambda net, x: op.clip(x, -0.5, 1),
    "leaky": lambda net, x: nn.leakyrelu(x, 0.2),
    "prelu": lambda net, x: nn.prelu(x, net.constant(3), axis=1),
    "rsqrt": lambda net, x: op.rsqrt(net.emit("positive", op.exp(x))),
    "power": lambda net, x: op.power(net.emit("positive", op.exp(x)), x),
    "softmax": lambda net, x: nn.softmax(x, axis=1),
    "log_softmax": lambda net, x: nn.log_softmax(x, axis=2),
    "mean": lambda net, x: op.mean(x, [1, 3], keepdims=True),
    "sum": lambda net, x: op.sum(x, [2]),
    "max": lambda net, x: op.max(x),
    "argmax": lambda net, x: op.argmax(x, 1, keepdims=True),
    "where": lambda net, x: op.where(net.emit("mask", op.less(x, relax.const(0.3))), x, net.constant(1)),
    "cast": lambda net, x: op.astype(x, "int32"),
    "expand": lambda net, x: op.broadcast_to(net.emit("s", op.mean(x, [2], keepdims=True)), (1, 3, 8, 8)),
    "transpose": lambda net, x: op.permute_dims(x),
    "tile": lambda net, x: op.tile(x, (2, 1)),
    "take": lambda net, x: op.take(x, relax.const(IDS), axis=2),
    "cumsum": lambda net, x: op.cumsum(x, axis=3),
    "layer_norm": lambda net, x: nn.layer_norm(x, net.constant(8, 8), net.constant(8, 8), [-2, -1]),
    "rms_norm": lambda net, x: nn.rms_norm(x, net.constant(8), [-1]),
    "rms_norm_2": lambda net, x: nn.rms_norm(x, net.constant(8, 8), [2, 3], 0.1),
    "group_norm": lambda net, x: nn.group_norm(x, net.constant(3), net.constant(3), 3, 1, [2, 3]),
    "instance_norm": lambda net, x: nn.instance_norm(x, net.constant(3), net.constant(3), 1, [2, 3]),
    "conv1d": lambda net, x: nn.conv1d(net.emit("r", op.reshape(x, (1, 3, 64))), net.constant(4, 3, 3), padding=1),
    "deconv": lambda net, x: nn.conv2d_transpose(x, net.constant(3, 4, 3, 3), strides=(2, 2), output_padding=(1, 1)),
    "avg_dilated": lambda net, x: nn.avg_pool2d(x, (3, 2), padding=(1, 0, 1, 0), dilation=(2, 1)),
    "avg_ceil": lambda net, x: nn.avg_pool2d(x, (3, 3), strides=(3, 3), padding=(1, 1, 1, 1), ceil_mode=True, count_include_pad=True),
    "adaptive": lambda net, x: nn.adaptive_avg_pool2d(x, 1),
    "linear": lambda net, x: op.image.resize2d(x, (16, 12), method="linear"),
    "slice": lambda net, x: op.strided_slice(x, [2, 3], [7, 1], [0, 8], [-2, 3]),
    "edge": lambda net, x: nn.pad(x, (0, 0, 0, 0, 1, 2, 0, 1), "replicate"),
    "matmul3": lambda net, x: op.add(net.emit("m", op.matmul(x, net.constant(8, 5))), net.constant(5)),
}  # fmt: skip


def test_operators():
    net = NetworkWriter((1, 3, 8, 8))
    results = []
    for name in (*UNARY, *BINARY, *OTHER):
        if name in OTHER:
            value = OTHER[name](net, net.x)
        else:
            operator = getattr(nn, name[3:]) if name.startswith("nn.") else getattr(op, name)
            value = operator(net.x) if name in UNARY else operator(net.x, net.constant(3, 1, 8))
        results.append(net.emit(name, value))
    mod = net.module(*results)
    wanted, found = run_relax(mod, X), run_onnx(export_qdq(mod), X)
    for var, a, e in zip(results, found, wanted, strict=True):
        assert (a.shape, a.dtype) == (e.shape, e.dtype), var.name
        np.testing.assert_allclose(
            a, e, rtol=0, atol=1e-4 * max(np.abs(e).max(), 1), err_msg=var.name
        )


def test_tuples_have_a_name_for_each_part():
    net = NetworkWriter((1, 3, 8, 8))
    top = net.emit("top", op.topk(net.x, 3, axis=3, dtype="int64"))
    values = net.emit("values", relax.TupleGetItem(top, 0))
    indices = net.emit("indices", op.astype(net.emit("i", relax.TupleGetItem(top, 1)), "float32"))
    mod = net.module(values, indices)
    assert_close(run_onnx(export_qdq(mod), X), run_relax(mod, X))


@pytest.mark.parametrize(
    "case", sorted(set(CASES) - {"tile_is_a_kernel", "upsample_7", "upsample_9"})
)
def test_what_the_frontend_reads_is_written_again(case):
    opset, nodes, weights = CASES[case]
    proto = model(nodes, {"x": X.shape}, {"y": None}, weights, opset)
    again = export_qdq(normalize()(import_onnx(proto)))
    assert [value.name for value in again.graph.output] == ["y"]
    assert_close(run_onnx(again, X), run_onnx(proto, X))


def test_operators_without_a_node_are_listed_at_once():
    net = NetworkWriter((1, 3, 8, 8))
    a = net.emit("a", op.trunc(net.x))
    b = net.emit("b", nn.adaptive_avg_pool2d(a, 4))
    with pytest.raises(UnsupportedOpError, match=r"a \(trunc\): no ONNX.*b \(.*\): it pools"):
        export_qdq(net.module(b))


def test_booleans_are_chosen_as_bytes():
    """ONNX Runtime has no Where of booleans."""
    net = NetworkWriter((1, 3, 8, 8))
    masks = [net.emit(f"m{i}", op.less(net.x, relax.const(i / 3))) for i in range(3)]
    mod = net.module(net.emit("y", op.where(*masks)))
    again = export_qdq(mod)
    assert [node.op_type for node in again.graph.node][-4:] == ["Cast", "Cast", "Where", "Cast"]
    assert_close(run_onnx(again, X), run_relax(mod, X))


def test_results_that_are_inputs_or_twice_the_same_keep_their_names():
    net = NetworkWriter((1, 3, 8, 8))
    y = net.emit("y", nn.relu(net.x))
    mod = net.module(y, net.x, y)
    again = export_qdq(mod, ["first", "second", "third"])
    assert [value.name for value in again.graph.output] == ["first", "second", "third"]
    assert_close(run_onnx(again, X), [np.maximum(X, 0), X, np.maximum(X, 0)])
