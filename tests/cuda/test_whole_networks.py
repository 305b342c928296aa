"""Whole networks as CUDA C on the CPU give the oracle's integers, tensor by tensor.

By default one, by dp4a; with --full all of them, by dp4a and with what is chosen on sm_80.
"""

import pytest
import tvm
from tvm.target import Target

from benchmarks import zoo
from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.onnx import import_onnx
from tests.cuda.run_network import EmulatedNetwork
from tests.cuda.run_template import SM_61, SM_80
from tests.quantized_networks import QuantizedNetwork, assert_found_equals_oracle
from tests.zoo_networks import DISTINCT

pytestmark = pytest.mark.slow

IMAGE_SIZE = {"inception_v3": 75, "unet": 32}
SMALL = 33
TRAINED = (
    "resnet8_cifar10_mlperftiny",
    "resnet20_cifar10",
    "squeezenet1.1_imagenet",
    "mobilenetv1_0.25_224_imagenet",
)
QUICK = TRAINED[0]
TARGETS = {"sm_61": SM_61, "sm_80": SM_80}


@pytest.fixture(scope="module", params=DISTINCT)
def published(request, full: bool) -> QuantizedNetwork:
    if not full:
        pytest.skip("needs --full")
    size = IMAGE_SIZE.get(request.param, SMALL)
    return quantized(import_onnx(zoo.build(request.param, image_size=size, depth="cut")))


@pytest.fixture(scope="module", params=TRAINED)
def trained(request, full: bool, shared_data) -> QuantizedNetwork:
    if not full and request.param != QUICK:
        pytest.skip("needs --full")
    return quantized(import_onnx(shared_data / "models" / f"{request.param}.onnx", batch=1))


def quantized(mod: tvm.IRModule) -> QuantizedNetwork:
    return QuantizedNetwork.make(normalize()(mod))


def assert_equals_oracle(network: QuantizedNetwork, target: Target) -> None:
    emulated = EmulatedNetwork(network.mod, target, optimize=True)
    assert_found_equals_oracle(network, emulated.run(network.inputs))


@pytest.mark.parametrize("target", TARGETS)
def test_trained(trained: QuantizedNetwork, target: str, full: bool):
    if not full and target != "sm_61":
        pytest.skip("needs --full")
    assert_equals_oracle(trained, TARGETS[target])


@pytest.mark.parametrize("target", TARGETS)
def test_published(published: QuantizedNetwork, target: str):
    assert_equals_oracle(published, TARGETS[target])
