"""Every kind of histogram, counted by kernels inside a network, equals NumPy's to the bit."""

import numpy as np
import pytest

from relay_int8.calibration import ArrayRunner, calibrate
from relay_int8.calibration.methods import find_method
from relay_int8.calibration_network import CalibrationNetwork
from schedules.targets import native_target
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    "method", ["max", "moving-average", "kl", "kl-mxnet", "kl-ncnn", "kl-tpu-mlir", "kl-ppq"]
)
def test_kernels_count_what_numpy_does(method):
    net = NetworkWriter((1, 3, 9, 11))
    mod = net.module(net.relu("y", net.x))
    schemes = {"x": "asymmetric", "y": "u8"}
    images = np.random.default_rng(3).standard_t(3, size=(25, 1, 3, 9, 11)).astype(np.float32)
    images[4, 0, 0, 0, :3] = 0, 1e-40, 1e38
    data = [{"x": image} for image in images]
    kernels = CalibrationNetwork(mod, schemes, [], native_target(), find_method(method))
    numpy = ArrayRunner(lambda image: {"x": image["x"], "y": np.maximum(image["x"], 0)})
    found, expected = (
        calibrate(runner, schemes, data, method=method, keep_histograms=True).to_json()
        for runner in (kernels, numpy)
    )
    assert found == expected
