"""Channels that may be scaled: kernels find what NumPy does, in any order, and go on when killed."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from tvm import relax

from relay_int8.calibration import calibrate
from relay_int8.calibration.channels import FreeFactors, ScalableChannels
from relay_int8.calibration.checkpoint import Checkpoint
from relay_int8.calibration.methods import METHODS, find_method
from relay_int8.calibration.network import CalibrationRecipe
from relay_int8.numerics.equalization import HEADROOM, LARGEST
from schedules.targets import native_target
from tests.calibration.array_runner import ArrayRunner
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast
F = np.float32
SCHEMES = {"x": "asymmetric", "y": "u8", "z": "u8"}
SPREAD = F([1, 0.3, 1e-3, 20, 0]).reshape(1, 5, 1, 1)
CHANNELS = ScalableChannels(
    name="y",
    tensors={"y": (0, 5), "z": (0, 5), "x": (0, 5)},
    choice=FreeFactors(bounds=np.full(5, np.inf), positions=99),
)


def network(image):
    y = np.maximum(image["x"], 0)
    return {"x": image["x"], "y": y, "z": y[:, :, :4, :4]}


def pictures(count=25, seed=3):
    rng = np.random.default_rng(seed)
    return [{"x": rng.normal(size=(1, 5, 9, 11)).astype(F) * SPREAD} for _ in range(count)]


def calibrated(data, net=network, method="mse-affine", **more):
    runner = ArrayRunner(net, ["y"], list(CHANNELS.tensors))
    return calibrate(
        runner,
        SCHEMES,
        data,
        method=method,
        scalable=[CHANNELS],
        keep_histograms=method != "moving-average",
        **more,
    )


def recipe(method):
    net = NetworkWriter((1, 5, 9, 11))
    y = net.relu("y", net.x)
    mod = net.module(net.emit("z", relax.op.strided_slice(y, [2, 3], [0, 0], [4, 4])))
    names = list(CHANNELS.tensors)
    return CalibrationRecipe(mod, SCHEMES, ["y"], native_target(), find_method(method), names)


@pytest.mark.parametrize("method", ["mse-affine", "kl-tpu-mlir", "max"])
def test_kernels_find_what_numpy_does(method):
    data = pictures()
    made = pickle.loads(pickle.dumps(recipe(method)))()
    found = calibrate(made, SCHEMES, data, method=method, scalable=[CHANNELS], keep_histograms=True)
    most = np.max([image["x"] for image in data], axis=(0, 1, 3, 4))
    expected = [most[3] / most[0] / HEADROOM, most[3] / most[1] / HEADROOM, LARGEST, 1, 1]
    np.testing.assert_allclose(found.factors["y"], expected, rtol=1e-6)
    wanted = calibrated(data, method=method)
    np.testing.assert_allclose(found.means["y"], wanted.means["y"], rtol=1e-5)
    assert replace(found, means={}).to_json() == replace(wanted, means={}).to_json()


def test_it_is_the_table_of_the_scaled_values():
    data = pictures()
    found = calibrated(data)
    factors = found.factors["y"].reshape(1, 5, 1, 1)
    runner = ArrayRunner(
        lambda image: {name: values * factors for name, values in network(image).items()}, ["y"]
    )
    wanted = calibrate(runner, SCHEMES, data, method="mse-affine", keep_histograms=True)
    assert [item.to_fields() for item in found.entries.values()] == [
        item.to_fields() for item in wanted.entries.values()
    ]
    np.testing.assert_allclose(found.means["y"], wanted.means["y"], rtol=1e-5)


def test_order_does_not_count():
    data = pictures()
    assert calibrated(data).to_json() == calibrated(data[::-1]).to_json()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_scales_or_says_why_not(method):
    table = calibrated(pictures(), method=method)
    told = any("reads the data once" in note for note in table.notes)
    assert bool(table.factors) != told


def test_values_that_are_not_finite_scale_nothing():
    data = pictures()
    data[7]["x"][0, 2, 3, 4] = np.nan
    table = calibrated(data)
    assert not table.factors and table.entries["y"].observed.nonfinite == 1


class Stop(Exception):
    """Stands for the power cut."""


@pytest.mark.parametrize("after", [10, 25, 26, 40])
def test_stopped_anywhere(after, tmp_path):
    ran = []

    def _stopping(image):
        ran.append(1)
        if len(ran) > after:
            raise Stop
        return network(image)

    path = tmp_path / "partial"
    with pytest.raises(Stop):
        calibrated(pictures(), _stopping, checkpoint=Checkpoint(path, "k", 0))
    found = calibrated(pictures(), checkpoint=Checkpoint(path, "k", 0, resume=True))
    assert found.to_json() == calibrated(pictures()).to_json()
