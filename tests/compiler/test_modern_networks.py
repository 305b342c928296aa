"""Networks for phones and segmentation: float as ONNX Runtime, every layer in integers, exact."""

import numpy as np
import pytest
import tvm
from tvm.target import Target

from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.onnx import import_onnx
from relay_int8.numerics.snr import snr_db
from schedules.targets import TARGETS
from tests.cuda.run_network import EmulatedNetwork
from tests.cuda.run_template import SM_61
from tests.modern_networks import NETWORKS
from tests.onnx_models import run_onnx
from tests.quantized_networks import (
    QuantizedNetwork,
    assert_equals_oracle,
    assert_found_equals_oracle,
    float_tensors,
    image,
)
from tests.reference import output_names
from tests.x86_targets import FASTEST, X86

LEAST_DB = 24


@pytest.fixture(scope="module", params=NETWORKS)
def named(request) -> tuple[str, tvm.IRModule, QuantizedNetwork]:
    mod = normalize()(import_onnx(NETWORKS[request.param]()))
    return request.param, mod, QuantizedNetwork.make(mod)


def test_float_equals_onnx_runtime(named):
    name, mod, _ = named
    inputs = image(mod)
    (y,) = output_names(mod, inputs)
    (wanted,) = run_onnx(NETWORKS[name](), *inputs.values())
    np.testing.assert_allclose(float_tensors(mod, inputs)[y], wanted, rtol=1e-5, atol=1e-5)


def test_every_layer_is_in_integers(named):
    _, mod, network = named
    assert {layer.reason for layer in network.plan.layers} == {None}
    (y,) = output_names(mod, network.inputs)
    found = network.expected[output_names(network.mod, network.inputs)[0]]
    assert snr_db(float_tensors(mod, network.inputs)[y], found) > LEAST_DB


@pytest.mark.slow
@pytest.mark.parametrize("target", X86)
def test_equals_oracle(named, target: str, full: bool):
    if not full and target != FASTEST:
        pytest.skip("needs --full: small networks run on all targets by default")
    assert_equals_oracle(named[2], Target(TARGETS[target]))


@pytest.mark.slow
def test_equals_oracle_on_emulated_gpu(named, full: bool):
    if not full:
        pytest.skip("needs --full: small networks run there by default")
    network = named[2]
    found = EmulatedNetwork(network.mod, SM_61).run(network.inputs)
    assert_found_equals_oracle(network, found)
