"""The zoo: published sizes, valid models, activations of sane scale."""

import numpy as np
import onnx
import pytest
import tvm

from benchmarks import zoo
from relay_int8.compiler.pipeline import normalize_passes
from relay_int8.errors import ConfigError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import calls, operator, results, shape
from tests.onnx_models import run_onnx

# Millions of parameters and of multiplications for one image, as published (torchvision's and, for
# DRN-C-26, the authors' implementation).
PUBLISHED = {
    "resnet18": (11.69, 1814),
    "resnet50": (25.56, 4089),
    "vgg19": (143.67, 19632),
    "inception_v3": (23.83, 5713),
    "resnext50_32x4d": (25.03, 4230),
    "drn_c_26": (21.13, 16971),
    "mobilenet_v2": (3.505, 300.8),
    "mobilenet_v3_large": (5.483, 216.6),
    "efficientnet_b0": (5.2886, 385.8),
    "densenet121": (7.979, 2834),
    "unet": (7.763, 12071),
    # torchvision counts 35.322 and, at 520 pixels, 152720 with the head that only trains.
    "fcn_resnet50": (35.322 - 2.365, 26484),
    # ResNet-101 is 44.549 and 7801; the last stage is not strided, and offsets are convolutions.
    "dcn_resnet101": (44.549 + 0.9955, 7801 + 2119.8 + 195.1),
    "dcn_v2_resnet101": (44.549 + 1.9293, 7801 + 396.2),
}
CONVOLUTIONS = ("Conv", "DeformConv", "ConvTranspose")
SMALL = {name: 75 if name == "inception_v3" else 32 for name in zoo.NETWORKS}


def images(name: str, size: int | None = None) -> np.ndarray:
    """Two random images whose neighbouring pixels are alike."""
    size = size or SMALL[name]
    coarse = np.random.default_rng(1).normal(size=(2, 3, -(-size // 4), -(-size // 4)))
    return coarse.repeat(4, 2).repeat(4, 3)[:, :, :size, :size].astype("float32")


@pytest.mark.fast
@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_published_cost(name: str):
    cost = zoo.cost(name)
    parameters, macs = PUBLISHED[name]
    assert cost.parameters / 1e6 == pytest.approx(parameters, rel=1e-3)
    assert cost.macs / 1e6 == pytest.approx(macs, rel=1e-3)


@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_cut_network_runs_at_sane_scale(name: str):
    proto = zoo.build(name, image_size=SMALL[name], depth="cut", batch="N")
    onnx.checker.check_model(proto, full_check=True)
    (logits,) = run_onnx(proto, images(name))
    size = SMALL[name]
    assert logits.shape == (
        (2, zoo.SEGMENTED[name], size, size) if name in zoo.SEGMENTED else (2, 1000)
    )
    assert 0.2 < logits.std() < 5
    assert np.abs(logits[0] - logits[1]).max() > 1e-3


def outputs_of(proto: onnx.ModelProto, kinds: set[str], x: np.ndarray) -> dict[str, np.ndarray]:
    """Run a model and return what its nodes of some kinds give."""
    names = [node.output[0] for node in proto.graph.node if node.op_type in kinds]
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return dict(zip(names, run_onnx(proto, x), strict=True))


@pytest.mark.parametrize(
    "name", ["resnet50", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0"]
)
def test_deep_network_neither_vanishes_nor_explodes(name: str):
    proto = zoo.build(name, image_size=128, batch=2)
    for layer, y in outputs_of(proto, {"Conv", "Add", "Gemm"}, images(name, 128)).items():
        assert 0.2 < y.std() < 5, layer


def test_relu_is_half_open():
    proto = zoo.build("resnet18", image_size=32, depth="cut", batch=2)
    zeros = [(y == 0).mean() for y in outputs_of(proto, {"Relu"}, images("resnet18")).values()]
    assert 0.2 < np.mean(zeros) < 0.8


def test_seed_decides_the_weights():
    def built(seed: int) -> bytes:
        return zoo.build("mobilenet_v2", image_size=32, depth="cut", seed=seed).SerializeToString()

    assert built(3) == built(3)
    assert built(3) != built(4)


@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_cut_network_normalizes(name: str):
    proto = zoo.build(name, image_size=SMALL[name], depth="cut", classes=10)
    mod = tvm.transform.Sequential(normalize_passes())(import_onnx(proto))
    found = [operator(value) for _, value in calls(mod["main"])]
    convolutions = [n for n in proto.graph.node if n.op_type in CONVOLUTIONS]
    given = {name for node in convolutions for name in node.output}
    norms = [n for n in proto.graph.node if n.op_type == "BatchNormalization"]
    apart = [norm for norm in norms if norm.input[0] not in given]  # become depthwise convolutions
    assert found.count("nn.conv2d") == len(convolutions) + len(apart)
    assert not {"nn.batch_norm", "mean", "tuple_get_item", "maximum", "minimum"} & set(found)
    assert shape(results(mod["main"])[0])[:2] == (1, 10)


def test_unknown_network():
    with pytest.raises(ConfigError, match="no network 'alexnet'; there are resnet18, "):
        zoo.build("alexnet")


def test_too_small_image():
    with pytest.raises(ConfigError, match="larger image_size"):
        zoo.cost("inception_v3", image_size=40)
