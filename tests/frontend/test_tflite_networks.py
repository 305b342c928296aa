"""Whole TFLite networks: float within 1e-4 of TFLite, integers equal to the oracle and to TFLite."""

import numpy as np
import pytest

import relay_int8
from relay_int8.api.preview import preview
from relay_int8.compiler.pipeline import normalize
from relay_int8.graph.dataflow import calls, is_quantized, operator, results
from relay_int8.quantization.adopt import adopt
from relay_int8.quantization.config import QuantConfig
from tests import reference
from tests.adopted_networks import run_on
from tests.mxnet_models import run_fast
from tests.tflite_models import TfliteModel, quantized, run_interpreter, set_scale
from tests.x86_targets import FASTEST

RELU, RELU6 = 1, 3
IMAGE = (1, 17, 16, 3)


def residual():
    """Two residual blocks, the second one halves the image; pooled, flattened, classified."""
    net = TfliteModel(11)
    x = net.input("image", IMAGE)
    x = net.conv(x, 8, 3, 3, fusedActivationFunction=RELU)
    y = net.conv(x, 8, 3, 8, fusedActivationFunction=RELU)
    x = net.op("ADD", x, net.conv(y, 8, 3, 8), options="AddOptions", fusedActivationFunction=RELU)
    half = {"strideW": 2, "strideH": 2}
    y = net.conv(net.conv(x, 16, 3, 8, **half, fusedActivationFunction=RELU), 16, 3, 16)
    x = net.op("ADD", y, net.conv(x, 16, 1, 8, **half), options="AddOptions")
    x = net.pool("AVERAGE_POOL_2D", net.op("RELU", x), 3, 2, padding=1)
    x = net.op("RESHAPE", x, net.constant((-1, 192)))
    x = net.dense(x, 10, 192)
    return net.finish(net.op("SOFTMAX", x, options="SoftmaxOptions", beta=1.0, name="label"))


def inverted():
    """Inverted residuals with hard-swish, squeeze-and-excite, and a head of two scales."""
    net = TfliteModel(12)
    x = net.input("image", IMAGE)
    x = net.op("HARD_SWISH", net.conv(x, 8, 3, 3, strideW=2, strideH=2))
    y = net.conv(x, 24, 1, 8, fusedActivationFunction=RELU6)
    y = net.depthwise(y, 24, 3, fusedActivationFunction=RELU6)
    pooled = net.op("MEAN", y, net.constant((1, 2)), options="ReducerOptions", keepDims=True)
    gate = net.conv(net.conv(pooled, 6, 1, 24, fusedActivationFunction=RELU), 24, 1, 6)
    y = net.op("MUL", y, net.op("LOGISTIC", gate), options="MulOptions")
    x = net.op("ADD", net.conv(y, 8, 1, 24), x, options="AddOptions")
    small = net.depthwise(x, 8, 5, strideW=2, strideH=2, fusedActivationFunction=RELU)
    large = net.op("RESIZE_NEAREST_NEIGHBOR", small, net.constant((10, 8)),
                   options="ResizeNearestNeighborOptions")  # fmt: skip
    corner = [net.constant(bounds) for bounds in ((0, 0, 0, 0), (1, 9, 8, 8))]
    large = net.op("SLICE", large, *corner, options="SliceOptions")
    y = net.op("CONCATENATION", large, x, options="ConcatenationOptions", axis=3)
    return net.finish(net.conv(y, 4, 1, 16), net.conv(small, 4, 1, 8))


NETWORKS = {"residual": residual, "inverted": inverted}


@pytest.mark.parametrize("name", NETWORKS)
def test_float(tmp_path, name):
    net = NETWORKS[name]()
    mod = net.imported(tmp_path)
    assert not is_quantized(mod)
    found = run_fast(mod, *net.inputs())
    for y, wanted in zip(found, run_interpreter(net, net.inputs(), "xnnpack"), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("name", NETWORKS)
def test_integers(tmp_path, name):
    """Every product is of integers, equal to the oracle; TFLite's results are one step off at most.

    Convolutions are XNNPACK's to the bit (see the operators); it adds and averages with fixed-point
    multipliers, which is where a step may be lost on the way.
    """
    net = quantized(NETWORKS[name]())
    adopted = adopt(net.imported(tmp_path), QuantConfig(require_int8=True))
    floats = {layer.kind for layer in adopted.plan.layers if not layer.integer}
    assert floats <= {"nn.softmax"}
    names = [str(param.name) for param in adopted.mod["main"].params]
    found = run_on(adopted, FASTEST, dict(zip(names, net.inputs(), strict=True)))
    for y, wanted in zip(found, run_interpreter(net, net.inputs(), "xnnpack"), strict=True):
        assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(y.astype(int), wanted.astype(int), rtol=0, atol=1)


def test_reals_around_integers(tmp_path):
    """A file may quantize and dequantize its own inputs and results; names are those of the file."""
    net = TfliteModel(1)
    x = net.op("QUANTIZE", net.input("image", IMAGE), options="QuantizeOptions", dtype="int8")
    set_scale(net, x, 0.03, 5)
    y = net.op("DEQUANTIZE", net.op("RELU", x, dtype="int8"), options="DequantizeOptions", name="y")
    set_scale(net, net.graph.operators[1].outputs[0], 0.02, -128)
    net.finish(y)
    adopted = adopt(net.imported(tmp_path))
    assert [str(var.name) for var in results(adopted.mod["main"])] == ["y"]
    found = reference.run(adopted.mod, {"image": net.inputs()[0]})["y"]
    (wanted,) = run_interpreter(net, net.inputs(), "xnnpack")
    np.testing.assert_allclose(found, wanted, rtol=0, atol=0.0201)  # a step


def test_artifact_of_a_quantized_file(tmp_path):
    net = quantized(residual())
    mod = net.imported(tmp_path)
    file, artifact = tmp_path / "model.tflite", tmp_path / "model.ri8"
    report = relay_int8.compile_model(
        file,
        None,
        artifact,
        imports=relay_int8.ImportOptions(batch=2),
        options=relay_int8.BuildOptions(target="x86"),
    )
    assert report.settings["scales"] == "of the model"
    assert preview(relay_int8.load_model(file)).coverage["float_macs"] == 0
    x = np.concatenate([net.inputs(seed)[0] for seed in (1, 2)])
    loaded = relay_int8.load(artifact)
    expected = [reference.run(adopt(mod).mod, {"image": row[None]})["label"] for row in x]
    np.testing.assert_array_equal(loaded.run(x)["label"], np.concatenate(expected))


def test_artifact_of_a_float_file(tmp_path):
    """Calibrated with images in the file's order; any batch up to the largest."""
    net = residual()
    net.imported(tmp_path)
    file, artifact = tmp_path / "model.tflite", tmp_path / "model.ri8"
    images = [net.inputs(seed)[0] for seed in range(4)]
    report = relay_int8.compile_model(
        file,
        images,
        artifact,
        samples=0,
        options=relay_int8.BuildOptions(target="x86", max_batch=3),
    )
    assert report.coverage["float_macs"] == 0
    loaded = relay_int8.load(artifact)
    expected = np.concatenate([run_interpreter(net, [x])[0] for x in images[:3]])
    found = loaded.run(np.concatenate(images[:3]))["label"]
    assert np.abs(found - expected).max() < 0.1
    np.testing.assert_array_equal(loaded.run(images[1])["label"], found[1:2])


def test_a_norm_over_the_channels_of_an_image(tmp_path):
    """As Keras writes LayerNormalization behind a convolution."""
    net = TfliteModel(15)
    x = net.conv(net.input("image", IMAGE), 8, 3, 3)
    mean = net.op("MEAN", x, net.constant((3,)), options="ReducerOptions", keepDims=True)
    squares = net.op("SQUARED_DIFFERENCE", x, mean, options="SquaredDifferenceOptions")
    spread = net.op("MEAN", squares, net.constant((3,)), options="ReducerOptions", keepDims=True)
    epsilon = net.constant(np.float32(1e-3), "float32")
    inverse = net.op("RSQRT", net.op("ADD", spread, epsilon, options="AddOptions"))
    factor = net.op("MUL", inverse, net.weights(8, scale=0.5), options="MulOptions")
    shift = net.op("MUL", net.op("NEG", mean, options="NegOptions"), factor, options="MulOptions")
    shift = net.op("ADD", shift, net.weights(8, scale=0.5), options="AddOptions")
    y = net.op("MUL", x, factor, options="MulOptions")
    y = net.op("ADD", y, shift, options="AddOptions")
    net.finish(net.conv(net.op("ADD", y, x, options="AddOptions"), 4, 1, 8))
    mod = normalize()(net.imported(tmp_path))
    kinds = [operator(call) for _, call in calls(mod["main"])]
    assert "nn.layer_norm" in kinds and "rsqrt" not in kinds and kinds.count("permute_dims") == 4
    inputs = net.inputs()
    (found,) = run_fast(mod, *inputs)
    np.testing.assert_allclose(found, run_interpreter(net, inputs)[0], rtol=0, atol=1e-4)


def blocked(kind, *, padded=(2, 3, 2, 2), cropped=(0, 1, 0, 0), stride=1):
    """A convolution of dilation 2, as Keras writes it, with a batch norm behind."""
    net = TfliteModel(16)
    x = net.input("image", (1, 9, 8, 6))
    block = net.constant((2, 2))
    x = net.op("SPACE_TO_BATCH_ND", x, block, net.constant(np.reshape(padded, (2, 2))),
               options="SpaceToBatchNDOptions")  # fmt: skip
    write = (
        net.depthwise if kind == "depthwise" else lambda *rest, **more: net.conv(*rest, 6, **more)
    )
    x = write(x, 6, 3, padding=1, strideW=stride, strideH=stride)
    x = net.op("BATCH_TO_SPACE_ND", x, block, net.constant(np.reshape(cropped, (2, 2))),
               options="BatchToSpaceNDOptions")  # fmt: skip
    x = net.op("MUL", x, net.weights(6, scale=0.5), options="MulOptions")
    return net.finish(net.op("ADD", x, net.weights(6, scale=0.5), options="AddOptions"))


@pytest.mark.parametrize("kind", ["conv", "depthwise"])
def test_a_convolution_of_blocks_is_a_dilated_one(tmp_path, kind):
    net = blocked(kind)
    mod = normalize()(net.imported(tmp_path))
    kinds = [operator(call) for _, call in calls(mod["main"])]
    assert kinds == ["permute_dims", "nn.conv2d", "add", "permute_dims"]
    inputs = net.inputs()
    (found,) = run_fast(mod, *inputs)
    np.testing.assert_allclose(found, run_interpreter(net, inputs)[0], rtol=0, atol=1e-4)


def test_a_quantized_convolution_of_blocks_is_a_dilated_one(tmp_path):
    net = quantized(blocked("conv"))
    mod = net.imported(tmp_path)
    assert [c.attrs.dilation for _, c in calls(mod["main"]) if operator(c) == "nn.conv2d"] == [
        [2, 2]
    ]
    adopted, inputs = adopt(mod).mod, net.inputs()
    tensors = reference.run(adopted, {"image": inputs[0]})
    (name,) = reference.output_names(adopted, {"image": inputs[0]})
    wanted = run_interpreter(net, inputs, "xnnpack")[0]
    np.testing.assert_allclose(tensors[name].astype(int), wanted.astype(int), rtol=0, atol=1)


def test_other_convolutions_of_blocks_stay(tmp_path):
    net = blocked("conv", stride=2, padded=(2, 5, 2, 4), cropped=(0, 0, 0, 0))
    mod = net.imported(tmp_path)
    assert "reshape" in {operator(call) for _, call in calls(mod["main"])}
    inputs = net.inputs()
    (found,) = run_fast(mod, *inputs)
    np.testing.assert_allclose(found, run_interpreter(net, inputs)[0], rtol=0, atol=1e-4)
