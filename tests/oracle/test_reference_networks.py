"""The integer oracle on whole networks, against other evaluators of the same graph."""

import numpy as np
import pytest
import tvm
import tvm.relax.frontend.onnx
from tvm import relax
from tvm.relax import op as R

from tests.qdq_builder import QdqBuilder
from tests.reference import output_names, run


def residual_network(rng):
    """Return a QDQ network that returns each dequantized tensor, and the steps they are in."""
    net, steps, tensors = QdqBuilder(), {}, []

    def pair(y, s, *args, **kwargs):
        y = net.quantized(y, s, *args, **kwargs)
        steps[y.name] = s
        tensors.append(y)
        return y

    w = [rng.normal(0, 0.3, shape) for shape in ((8, 3, 3, 3), (8, 1, 3, 3), (8, 8, 1, 1))]
    b = [rng.normal(0, 0.2, 8) for _ in w]
    s_w = [np.abs(v).max((1, 2, 3)) / 127 for v in w]
    x = pair(net.input("x", ("n", 3, 9, 9)), 2 / 255, 128, "uint8")
    stem = net.conv("c0", x, w[0], s_w[0], b[0], padding=1, strides=2)
    stem = pair(net.emit("stem", R.nn.relu(stem)), 4 / 255, 0, "uint8")
    deep = net.conv("c1", stem, w[1], s_w[1], b[1], padding=1, groups=8)
    deep = pair(net.emit("deep", R.nn.leakyrelu(deep, 0.1)), 4 / 127, qrange=(-127, 127))
    both = net.emit("sum", R.add(net.conv("c2", deep, w[2], s_w[2], b[2]), stem))
    both = pair(net.emit("both", R.nn.relu(both)), 6 / 255, 0, "uint8")
    pooled = net.emit("pooled", R.nn.max_pool2d(both, [2, 2], [2, 2], ceil_mode=True))
    mean = pair(
        net.emit("mean", R.mean(pair(pooled, 6 / 255, 0, "uint8"), [2, 3])), 0.01, 0, "uint8"
    )
    logits = net.dense("logits", mean, rng.normal(0, 0.5, (8, 5)), 0.01, rng.normal(0, 1, 5))
    y = net.emit("y", R.nn.softmax(logits))
    return net.module(*tensors, y), steps | {"y": 0.01}


def test_a_network_in_integers_stays_within_a_step_of_tvms_float_evaluation():
    rng = np.random.default_rng(5)
    mod, steps = residual_network(rng)
    x = rng.uniform(-1, 1, (2, 3, 9, 9)).astype(np.float32)
    tensors = run(mod, {"x": x})
    plain = tvm.target.Target({"kind": "llvm", "opt-level": 0})  # compiles five times faster
    built = relax.build(relax.transform.LegalizeOps()(mod), plain)
    floats = relax.VirtualMachine(built, tvm.cpu())["main"](tvm.runtime.tensor(x))
    for name, expected in zip(output_names(mod, {"x": x}), floats, strict=True):
        expected = expected.numpy()
        np.testing.assert_allclose(tensors[name], expected, rtol=1e-5, atol=steps[name] * 1.01)
        assert np.ptp(expected) > 5 * steps[name], f"{name} is too flat to compare"
        assert np.mean(tensors[name] != expected) < 0.1 or name == "y"


@pytest.mark.parametrize("name", ["resnet8_cifar10_mlperftiny", "ultraface_rfb_320"])
def test_float_islands_equal_onnx_runtime(shared_data, name):
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    path = shared_data / "models" / f"{name}.onnx"
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (source,) = session.get_inputs()
    shape = [extent if isinstance(extent, int) else 2 for extent in source.shape]
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    mod = relax.frontend.onnx.from_onnx(onnx.load(path))
    tensors = run(mod, {source.name: x})
    expected = session.run(None, {source.name: x})
    for output, array in zip(output_names(mod, {source.name: x}), expected, strict=True):
        np.testing.assert_allclose(tensors[output], array, atol=1e-4)
