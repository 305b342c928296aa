"""Every kind of histogram, counted by kernels inside a network, equals NumPy's to the bit."""

import pickle

import numpy as np
import pytest
from tvm import relax

from relay_int8.calibration import calibrate
from relay_int8.calibration.methods import find_method
from relay_int8.calibration.network import CalibrationNetwork, CalibrationRecipe
from relay_int8.compiler.pipeline import lower
from relay_int8.errors import CalibrationError
from schedules.targets import named_target, native_target
from tests.calibration.array_runner import ArrayRunner
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    "method",
    [
        "max",
        "moving-average",
        "kl",
        "kl-mxnet",
        "kl-ncnn",
        "kl-tpu-mlir",
        "kl-ppq",
        "kl-tensorrt-onepass",
    ],
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


def test_statistics_of_all_sizes_are_compiled_once():
    net = NetworkWriter((1, 16, 9, 11))
    a = net.conv("a", net.x, 32, 3)
    b = net.conv("b", a, 16, 3)
    schemes = dict.fromkeys(("a", "b"), "u8")
    network = CalibrationNetwork(net.module(b), schemes, [], native_target(), find_method("kl"))
    lowered = lower(native_target())(network._observed)
    kernels = {str(name.name_hint) for name in lowered.get_global_vars()}
    assert sum(name.startswith("observe_cpu") for name in kernels) == 2  # a range, a histogram


def test_what_lies_in_a_concat_is_observed_there():
    net = NetworkWriter((1, 16, 9, 11))
    a, b = net.conv("a", net.x, 16, 3), net.conv("b", net.x, 16, 3)
    joined = net.emit("c", relax.op.concat([a, b], axis=1))
    schemes = dict.fromkeys(("a", "b", "c"), "s8")
    network = CalibrationNetwork(
        net.module(net.conv("d", joined, 4, 1)), schemes, [], native_target()
    )
    image = np.random.default_rng(3).normal(size=(1, 16, 9, 11)).astype(np.float32)
    found = network.statistics({"x": image}).ranges
    (low_a, high_a, _), (low_b, high_b, _), (low, high, _) = (found[name] for name in "abc")
    assert low_a != low_b and high_a != high_b
    assert (low, high) == (min(low_a, low_b), max(high_a, high_b))


def test_a_recipe_that_was_sent_makes_the_same_network():
    net = NetworkWriter((1, 3, 9, 11))
    mod = net.module(net.relu("y", net.conv("c", net.x, 5, 3)))
    schemes = {"x": "s8", "c": "s8", "y": "u8"}
    images = np.random.default_rng(3).normal(size=(20, 1, 3, 9, 11)).astype(np.float32)
    data = [{"x": image} for image in images]
    recipe = CalibrationRecipe(mod, schemes, ["x"], native_target(), find_method("kl"))
    tables = [
        calibrate(each(), schemes, data, method="kl", keep_histograms=True).to_json()
        for each in (recipe, pickle.loads(pickle.dumps(recipe)))
    ]
    assert tables[0] == tables[1]


def test_a_worker_without_the_instructions_says_so(monkeypatch):
    net = NetworkWriter((1, 3, 4, 4))
    mod = net.module(net.relu("y", net.x))
    target = named_target("x86-vnni")
    monkeypatch.setattr("relay_int8.machine.host.cpu_flags", frozenset)
    with pytest.raises(CalibrationError, match=r"lacks .*avx512_vnni.*workers of its kind"):
        CalibrationRecipe(mod, {"y": "u8"}, [], target)()
