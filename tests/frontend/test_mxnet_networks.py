"""Imported MXNet networks: equal to ONNX Runtime's in float, to the oracle's in integers."""

import numpy as np
import pytest
from tvm.target import Target

from relay_int8 import ImportOptions, load_model
from relay_int8.api.float_network import float_network
from relay_int8.compiler.build import compile_module
from relay_int8.compiler.pipeline import normalize
from relay_int8.data.dataset import open_data
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.frontend.mxnet import import_mxnet
from relay_int8.quantization.quantize import quantize
from schedules.targets import TARGETS
from tests import gluon_networks, reference
from tests.mxnet_models import run_fast
from tests.mxnet_to_onnx import to_onnx
from tests.onnx_models import assert_close, run_onnx
from tests.quantized_networks import (
    QuantizedNetwork,
    assert_equals_oracle,
    assert_found_equals_oracle,
)
from tests.run_built import run_built
from tests.x86_targets import FASTEST

BY_DEFAULT = "resnet_v2"
TARGET = Target(TARGETS[FASTEST])


@pytest.mark.parametrize("family", gluon_networks.NETWORKS)
def test_float(tmp_path, family):
    net, y, shape = gluon_networks.build(family)
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    mod = net.imported(tmp_path, y, data=shape)
    assert_close(run_fast(mod, x), run_onnx(to_onnx(net, y, shape), x))


@pytest.mark.slow
@pytest.mark.parametrize("family", gluon_networks.NETWORKS)
def test_integers(tmp_path, family, full):
    if not full and family != BY_DEFAULT:
        pytest.skip("needs --full")
    net, y, shape = gluon_networks.build(family)
    network = QuantizedNetwork.make(normalize()(net.imported(tmp_path, y, data=shape)))
    layers = [layer for layer in network.plan.layers if layer.macs]
    assert [layer.name for layer in layers if not layer.integer] == []
    assert len(layers) >= 3
    assert_equals_oracle(network, TARGET)


def images(count: int, seed: int) -> np.ndarray:
    """Return images of 112 x 112, 0 to 255, with structure of every size and colours that go along."""
    rng = np.random.default_rng(seed)
    found = np.zeros((count, 3, 112, 112))
    for image in found:
        for size in (2, 4, 7, 14, 28, 56):
            field = rng.normal(size=(1, size, size)) + 0.4 * rng.normal(size=(3, size, size))
            image += field.repeat(112 // size, 1).repeat(112 // size, 2) * size**-0.5
        image *= rng.uniform(30, 70) / image.std()
        image += rng.uniform(90, 160) - image.mean()
    return found.clip(0, 255).astype("float32")


@pytest.mark.slow
def test_trained_checkpoint(shared_data, full):
    """MobileFace V2, a checkpoint of MXNet 1.2 with 38 layers that embeds faces."""
    if not full:
        pytest.skip("needs --full")
    symbol = shared_data / "models" / "mxnet" / "MobileFace_Identification_V2-symbol.json"
    if not symbol.exists():
        pytest.skip(f"{symbol} is not here")
    shape = (1, 3, 112, 112)
    info = TensorInfo(name="data", shape=(-1, *shape[1:]), dtype="float32")
    quantized = quantize(
        import_mxnet(symbol, inputs={"data": shape}), open_data([images(16, 0)], (info,), None)
    )
    layers = [layer for layer in quantized.plan.layers if layer.macs]
    assert len(layers) == 38
    assert all(layer.integer for layer in layers)
    built = compile_module(quantized.mod, TARGET)
    inputs = {"data": images(1, 1)}
    network = QuantizedNetwork(
        quantized.mod, quantized.plan, inputs, reference.run(quantized.mod, inputs)
    )
    assert_found_equals_oracle(network, run_built(built, inputs))
    floats = float_network(load_model(symbol, ImportOptions(inputs={"data": shape})))
    for x in images(8, 2):
        (wanted,) = floats({"data": x[None]}).values()
        found = run_built(built, {"data": x[None]})["outputs:0"]
        cosine = (found * wanted).sum() / np.linalg.norm(found) / np.linalg.norm(wanted)
        assert cosine >= 0.99
