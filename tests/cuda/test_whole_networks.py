"""Whole networks as CUDA C on the CPU give the oracle's integers, tensor by tensor.

By default one, by dp4a; with --full all of them, by dp4a and with what is chosen on sm_80.
"""

import pytest
from tvm.target import Target

from benchmarks import zoo
from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.onnx import import_onnx
from tests.cuda.run_network import EmulatedNetwork
from tests.cuda.run_template import SM_61, SM_80
from tests.quantized_networks import QuantizedNetwork, assert_found_equals_oracle

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


def assert_equals_oracle(mod, target: Target) -> None:
    network = QuantizedNetwork.make(normalize()(mod))
    emulated = EmulatedNetwork(network.mod, target, optimize=True)
    assert_found_equals_oracle(network, emulated.run(network.inputs))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", TRAINED)
def test_trained(name: str, target: str, full: bool, shared_data):
    if not full and (name != QUICK or target != "sm_61"):
        pytest.skip("needs --full")
    assert_equals_oracle(
        import_onnx(shared_data / "models" / f"{name}.onnx", batch=1), TARGETS[target]
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_published(name: str, target: str, full: bool):
    if not full:
        pytest.skip("needs --full")
    size = IMAGE_SIZE.get(name, SMALL)
    assert_equals_oracle(
        import_onnx(zoo.build(name, image_size=size, depth="cut")), TARGETS[target]
    )
