"""Networks over sequences: float as ONNX Runtime, every layer in integers, exact."""

import numpy as np
import onnx
import pytest
from tvm import IRModule
from tvm.target import Target

import relay_int8
from relay_int8.compiler.build import kernel_calls
from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.onnx import import_onnx
from relay_int8.numerics.snr import snr_db
from schedules.spec import Move
from schedules.targets import TARGETS
from tests import reference
from tests.onnx_models import run_onnx
from tests.quantized_networks import (
    QuantizedNetwork,
    assert_equals_oracle,
    float_tensors,
    image,
)
from tests.sequence_networks import NETWORKS
from tests.x86_targets import FASTEST, X86

LEAST_DB = 24


@pytest.fixture(scope="module", params=NETWORKS)
def named(request) -> tuple[str, IRModule, QuantizedNetwork]:
    mod = normalize()(import_onnx(NETWORKS[request.param]()))
    return request.param, mod, QuantizedNetwork.make(mod)


def test_float_equals_onnx_runtime(named):
    name, mod, _ = named
    inputs = image(mod)
    (y,) = reference.output_names(mod, inputs)
    (wanted,) = run_onnx(NETWORKS[name](), *inputs.values())
    np.testing.assert_allclose(float_tensors(mod, inputs)[y], wanted, rtol=1e-5, atol=1e-5)


def test_layers_are_in_integers(named):
    """Only what gives or moves the result is in float; nothing is repacked between layers."""
    _, mod, network = named
    floats = {layer.kind for layer in network.plan.layers if not layer.integer}
    assert floats <= {"nn.softmax", "reshape"}
    inner = [
        call.name
        for call in kernel_calls(network.mod, Target(TARGETS["x86-vnni"]))[2:-1]
        if isinstance(call.spec, Move) and call.spec.move == "reshape"
    ]
    assert set(inner) <= {"flatten_32"}
    (y,) = reference.output_names(mod, network.inputs)
    found = network.expected[reference.output_names(network.mod, network.inputs)[0]]
    assert snr_db(float_tensors(mod, network.inputs)[y], found) > LEAST_DB


@pytest.mark.slow
@pytest.mark.parametrize("target", X86)
def test_equals_oracle(named, target: str, full: bool):
    if not full and target != FASTEST:
        pytest.skip("needs --full: small networks run on all targets by default")
    assert_equals_oracle(named[2], Target(TARGETS[target]))


@pytest.mark.slow
def test_artifact_takes_sequences(tmp_path, full):
    """From the file to the artifact, by the public API; sequences in, sequences out."""
    if not full:
        pytest.skip("needs --full: artifacts of images are built by default")
    proto = NETWORKS["u_net"]()
    onnx.save(proto, tmp_path / "net.onnx")
    x = image(import_onnx(proto))["x"]
    data = [np.concatenate([x, -x, 0.5 * x])]
    config = relay_int8.QuantConfig(require_int8=True)
    report = relay_int8.compile_model(
        tmp_path / "net.onnx", data, tmp_path / "net.ri8", config=config, samples=1
    )
    assert report.coverage["int8_macs"] > report.coverage["float_macs"] == 0
    (found,) = relay_int8.load(tmp_path / "net.ri8").run({"x": x}).values()
    (wanted,) = run_onnx(proto, x)
    assert found.shape == wanted.shape == (1, 4, 64)
    assert snr_db(wanted, found) > LEAST_DB
