"""Channels that depthwise layers write: their factors, that nothing else changes, what they bring."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.calibration import CalibrationTable, open_data
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.numerics.equalization import typical_power
from relay_int8.numerics.snr import snr_db
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig, Tools
from relay_int8.quantization.quantize import quantize
from relay_int8.quantization.refine.factors import with_factors
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.refine.pointwise import pointwise_chains, scalable_pointwise
from tests.reference import run
from tests.small_networks import NetworkWriter, images, nn

CHANNELS = 24
PLAIN = QuantConfig(tools=Tools(equalization="none"))


def separable(activation: str = "none", *, kernel: int = 1, read_too: bool = False):
    """Return conv, relu -> depthwise layer whose channels are of many sizes -> layer(s) -> sum."""
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, CHANNELS, 3, padding=1))
    sizes = np.geomspace(0.02, 2, CHANNELS).astype("float32").reshape(-1, 1, 1, 1)
    w = relax.const(
        np.random.default_rng(2).normal(size=(CHANNELS, 1, 3, 3)).astype("float32") * sizes
    )
    d = net.emit("d", nn.conv2d(a, w, padding=1, groups=CHANNELS))
    if activation == "relu":
        d = net.relu("d/relu", d)
    elif activation == "relu6":
        d = net.emit("d/relu6", relax.op.clip(d, 0, 6))
    inverse = 1 / sizes.reshape(1, -1, 1, 1)  # all channels matter alike
    w = np.random.default_rng(3).normal(size=(16, CHANNELS, kernel, kernel)) * inverse
    b = net.emit("b", nn.conv2d(d, relax.const(w.astype("float32") / 8), padding=kernel // 2))
    y = net.conv("y", net.relu("r", b), 8, 1)
    return net.module(y, net.conv("z", d, 4, 3)) if read_too else net.module(y)


def dataset(arrays):
    return open_data(
        [{"x": x} for x in arrays], [TensorInfo(name="x", dtype="float32", shape=arrays[0].shape)]
    )


@pytest.mark.fast
def test_typical_power_is_that_of_eight_deviations():
    np.testing.assert_array_equal(typical_power(np.array([[[-8, 0, 0], [8, 8, 0]]])), [4, 1, 0])


@pytest.mark.fast
def test_which_channels_take_factors():
    mod = separable()
    (name,) = pointwise_chains(mod)
    (found,) = scalable_pointwise(mod, annotate(mod, QuantConfig()))
    assert found.name == name and found.power is None
    assert [read.shape for read in found.reads] == [(CHANNELS, 16, 1)]


@pytest.mark.fast
@pytest.mark.parametrize(
    "mod", [separable("relu"), separable("relu6"), separable(kernel=3), separable(read_too=True)]
)
def test_which_do_not(mod):
    assert pointwise_chains(mod) == {}


def test_the_float_network_computes_the_same():
    mod = separable()
    (name,) = pointwise_chains(mod)
    factors = {name: np.random.default_rng(0).uniform(0.1, 10, CHANNELS).astype("float32")}
    before, after = NumpyNetwork(mod), NumpyNetwork(with_factors(mod, factors))
    for x in images(mod, 2):
        np.testing.assert_allclose(
            after.run({"x": x})["y"], before.run({"x": x})["y"], rtol=1e-4, atol=1e-4
        )


def test_it_is_nearer_to_the_float_network_and_the_table_holds_it():
    mod = separable()
    data, unseen = dataset(images(mod, 12)), images(mod, 16)[12:]
    wanted = np.concatenate([NumpyNetwork(mod).run({"x": x})["y"] for x in unseen])
    made = quantize(mod, data)
    plain, scaled = (
        snr_db(wanted, np.concatenate([run(each.mod, {"x": x})["y"] for x in unseen]))
        for each in (quantize(mod, data, PLAIN), made)
    )
    assert set(made.table.factors) == {"d"} and scaled > plain + 6
    table = CalibrationTable.from_json(made.table.to_json())
    assert quantize(mod, table).digest == made.digest
