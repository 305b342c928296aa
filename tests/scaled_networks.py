"""What every kind of factors of channels has to show: the same floats, and integers nearer to them."""

from __future__ import annotations

import numpy as np
from tvm import IRModule

from relay_int8.calibration import CalibrationTable, open_data
from relay_int8.data.dataset import Dataset
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.numerics.snr import snr_db
from relay_int8.quantization.config import QuantConfig, Tools
from relay_int8.quantization.quantize import quantize
from relay_int8.quantization.quantized_model import QuantizedModel
from relay_int8.quantization.refine.factors import with_factors
from relay_int8.quantization.refine.network import NumpyNetwork
from tests.reference import run
from tests.small_networks import images

PLAIN = QuantConfig(tools=Tools(equalization="none"))


def dataset(arrays: list[np.ndarray]) -> Dataset:
    """Return images of the input x."""
    shape = arrays[0].shape
    return open_data(
        [{"x": x} for x in arrays], [TensorInfo(name="x", dtype="float32", shape=shape)]
    )


def assert_factors_change_no_float(mod: IRModule, name: str, channels: int) -> None:
    """Assert that a network with any factors of the tensor ``name`` computes the same result y."""
    factors = {name: np.random.default_rng(0).uniform(0.1, 10, channels).astype("float32")}
    before, after = NumpyNetwork(mod), NumpyNetwork(with_factors(mod, factors))
    for x in images(mod, 2):
        np.testing.assert_allclose(
            after.run({"x": x})["y"], before.run({"x": x})["y"], rtol=1e-4, atol=1e-4
        )


def gain_of_factors(mod: IRModule) -> tuple[QuantizedModel, float]:
    """Return ``mod`` with factors, and by how many dB they bring it nearer to the float network.

    Assert that its table makes the same network again.
    """
    data, unseen = dataset(images(mod, 12)), images(mod, 16)[12:]
    wanted = np.concatenate([NumpyNetwork(mod).run({"x": x})["y"] for x in unseen])
    made = quantize(mod, data)
    plain, scaled = (
        snr_db(wanted, np.concatenate([run(each.mod, {"x": x})["y"] for x in unseen]))
        for each in (quantize(mod, data, PLAIN), made)
    )
    table = CalibrationTable.from_json(made.table.to_json())
    assert quantize(mod, table).digest == made.digest
    return made, scaled - plain
