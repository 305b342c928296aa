"""Whole networks give the oracle's integers on every x86 target, tensor by tensor.

Published structures with made-up weights: cut to one block of each kind; with --full three of them
also whole. Trained networks are always whole. Without --full all run on one target; small networks
run on every one.
"""

import pytest
import tvm
from tvm.target import Target

from benchmarks import zoo
from relay_int8.compiler.build import kernel_calls
from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.onnx import import_onnx
from schedules.targets import TARGETS, compact
from tests.quantized_networks import QuantizedNetwork, assert_equals_oracle
from tests.x86_targets import FASTEST, X86, case
from tests.zoo_networks import DISTINCT

pytestmark = pytest.mark.slow

IMAGE_SIZE = {"inception_v3": 75, "drn_c_26": 33, "unet": 48}  # U-Net halves four times
CUT_SIZE, FULL_SIZE = 47, 64  # 47 leaves odd sizes behind every stride
TRAINED = (
    "resnet8_cifar10_mlperftiny",
    "resnet20_cifar10",
    "vww_mobilenetv1_0.25_96",
    "squeezenet1.1_imagenet",
    "mobilenetv1_0.25_224_imagenet",
    "ultraface_rfb_320",
)
BATCHES = (
    *("resnet18", "inception_v3", "resnext50_32x4d", "drn_c_26", "mobilenet_v3_large"),
    *("densenet121", "unet", "dcn_v2_resnet101"),
)
"""Those that run with 16 images: the others have kernels of the same kinds."""
WHOLE = ("inception_v3", "densenet121", "unet")
"""Those whose blocks differ most in shape; the others repeat theirs."""
DEFAULT = (
    *("drn_c_26", "inception_v3", "mobilenet_v3_large"),
    *("resnet8_cifar10_mlperftiny", "squeezenet1.1_imagenet", "mobilenetv1_0.25_224_imagenet"),
)
"""Those that run without --full."""


def quantized(mod: tvm.IRModule) -> QuantizedNetwork:
    network = QuantizedNetwork.make(normalize()(mod))
    assert all(layer.integer for layer in network.plan.layers if layer.macs)
    return network


@pytest.fixture(scope="module", params=DISTINCT)
def published(request, full) -> QuantizedNetwork:
    if request.param not in DEFAULT and not full:
        pytest.skip("needs --full: others and smaller networks have its operators")
    size = IMAGE_SIZE.get(request.param, CUT_SIZE)
    return quantized(import_onnx(zoo.build(request.param, image_size=size, depth="cut")))


@pytest.mark.parametrize("target", X86)
def test_published_network(published: QuantizedNetwork, full: bool, target: str):
    _skip_others(full, target)
    assert_equals_oracle(published, Target(TARGETS[target]))


@pytest.mark.parametrize("name", WHOLE)
def test_whole_network(name: str, full: bool):
    if not full:
        pytest.skip("needs --full")
    proto = zoo.build(name, image_size=IMAGE_SIZE.get(name, FULL_SIZE), depth="full")
    assert_equals_oracle(quantized(import_onnx(proto)), Target(TARGETS[FASTEST]))


@pytest.mark.parametrize("name", BATCHES)
def test_published_network_at_batch_16(name: str, full: bool):
    if not full:
        pytest.skip("needs --full")
    size = IMAGE_SIZE.get(name, CUT_SIZE)
    proto = zoo.build(name, image_size=size, depth="cut", batch=16)
    assert_equals_oracle(quantized(import_onnx(proto)), Target(TARGETS[FASTEST]))


@pytest.fixture(scope="module", params=TRAINED)
def trained(request, shared_data, full) -> QuantizedNetwork:
    if request.param not in DEFAULT and not full:
        pytest.skip("needs --full: others and smaller networks have its operators")
    path = shared_data / "models" / f"{request.param}.onnx"
    return quantized(import_onnx(path, batch=1))


@pytest.mark.parametrize("target", X86)
def test_trained_network(trained: QuantizedNetwork, full: bool, target: str):
    _skip_others(full, target)
    assert_equals_oracle(trained, Target(TARGETS[target]))


def _skip_others(full: bool, target: str) -> None:
    if not full and target != FASTEST:
        pytest.skip("needs --full")


@pytest.mark.parametrize("target", [case("x86-vnni"), case("x86-avx2")])
def test_winograd_layers(target: str):
    """Images of 32 x 32 pixels are large enough for 64 channels."""
    network = quantized(import_onnx(zoo.build("resnet18", image_size=128, depth="cut")))
    calls = kernel_calls(network.mod, Target(TARGETS[target]))
    assert any(call.template.startswith("winograd") for call in calls)
    compactly = kernel_calls(network.mod, compact(Target(TARGETS[target])))
    assert not any(call.template.startswith("winograd") for call in compactly)
    assert_equals_oracle(network, Target(TARGETS[target]))
