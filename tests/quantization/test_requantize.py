"""Networks in fixed point: the oracle's integers on x86, another digest, accuracy as in float."""

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import pytest
from tvm.target import Target

from benchmarks.accuracy.trained_network import TrainedNetwork, open_networks
from relay_int8 import ImportOptions, QuantConfig, load
from relay_int8.api.compile import compile_model
from relay_int8.compiler.build import kernel_calls
from relay_int8.compiler.pipeline import normalize
from relay_int8.demo import MODEL, load_images
from relay_int8.errors import ConfigError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.batch import with_batch
from relay_int8.graph.digest import digest
from relay_int8.graph.requantize import requantize_of, with_requantize
from relay_int8.quantization.adopt import adopt
from relay_int8.tuning.network import network_tasks
from schedules.rounding import REQUANTIZE, ROUNDINGS, Requantize
from schedules.spec import Requantizing
from schedules.targets import TARGETS
from tests import deformable_networks
from tests.quantized_networks import QuantizedNetwork, assert_equals_oracle
from tests.small_networks import NETWORKS, any_params
from tests.x86_targets import FASTEST, NEEDED, case

AVX2 = Target(TARGETS["x86-avx2"])


PRESETS = ("int8", "int8-asymmetric")


def _cases() -> Iterator[tuple[str, str, str, Requantize]]:
    """Yield target, network, preset and rounding, so that any two of them meet.

    Kernels by template, target and rounding are compared in tests/schedules/test_fixed_point.py.
    """
    for i, name in enumerate(NETWORKS):
        for j, target in enumerate(NEEDED):
            rounding = ROUNDINGS[(i + j + FIRST) % len(ROUNDINGS)]
            yield target, name, PRESETS[(i // len(ROUNDINGS) + j) % len(PRESETS)], rounding


FIRST = (ROUNDINGS.index("tpu-mlir") - list(NETWORKS).index("branches")) % len(ROUNDINGS)
CASES = tuple(_cases())
QUICK = next(axes for axes in CASES if axes[:2] == (FASTEST, "branches"))


@pytest.mark.fast
def test_any_two_of_target_network_preset_and_rounding_meet():
    axes = (NEEDED, NETWORKS, PRESETS, ROUNDINGS)
    for (i, one), (j, other) in combinations(enumerate(axes), 2):
        assert {(of[i], of[j]) for of in CASES} == set(product(one, other))


@pytest.mark.slow
@pytest.mark.parametrize(("target", "name", "preset", "rounding"), [case(*axes) for axes in CASES])
def test_small_network(target: str, name: str, preset: str, rounding: Requantize, full: bool):
    if not full and (target, name, preset, rounding) != QUICK:
        pytest.skip("needs --full")
    network = QuantizedNetwork.make(
        NETWORKS[name](), any_params, preset=preset, requantize=rounding
    )
    assert_equals_oracle(network, Target(TARGETS[target]))


@pytest.mark.slow
@pytest.mark.parametrize("name", deformable_networks.NETWORKS)
def test_samples_at_moved_places_stay_float(name: str, full: bool):
    """Where a deformable convolution looks is said by floats; what it multiplies is integers."""
    if not full:
        pytest.skip("needs --full")
    network = QuantizedNetwork.make(deformable_networks.NETWORKS[name](), requantize="tflite")
    calls = kernel_calls(network.mod, AVX2)
    specs = [
        call.spec for call in calls if call.spec is not None and call.spec.dtype("y") != "float32"
    ]
    scaled = {spec.rounding for spec in specs if isinstance(spec, Requantizing) and spec.params}
    assert scaled == {"tflite"}
    assert_equals_oracle(network, AVX2)


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_demo_network(rounding: Requantize, full: bool):
    if not full and rounding != "gemmlowp":
        pytest.skip("needs --full")
    network = QuantizedNetwork.make(normalize()(import_onnx(MODEL, batch=1)), requantize=rounding)
    assert all(layer.integer for layer in network.plan.layers if layer.macs)
    assert_equals_oracle(network, Target(TARGETS[FASTEST]))


@pytest.mark.fast
def test_it_is_another_model():
    mod = QuantizedNetwork.make(NETWORKS["residual"](), any_params).mod
    assert with_requantize(mod, "float") is mod
    fixed = {requantize: with_requantize(mod, requantize) for requantize in REQUANTIZE}
    assert len({digest(one) for one in fixed.values()}) == len(REQUANTIZE)
    for requantize, one in fixed.items():
        assert requantize_of(one["main"]) == requantize
        assert requantize_of(with_batch(one, 3)["main"]) == requantize
    assert requantize_of(mod["main"]) == "float", "the caller's module was changed"


@pytest.mark.fast
def test_an_adopted_model_is_requantized_as_asked():
    mod = QuantizedNetwork.make(NETWORKS["residual"](), any_params).mod
    adopted = adopt(mod, QuantConfig(requantize="tflite"))
    assert requantize_of(adopted.mod["main"]) == "tflite"
    assert adopted.settings["requantize"] == "fixed (tflite)"
    calls = kernel_calls(adopted.mod, AVX2)
    roundings = {call.spec.rounding for call in calls if isinstance(call.spec, Requantizing)}
    assert "tflite" in roundings and roundings <= {"tflite", None}


@pytest.mark.fast
def test_what_is_tuned_is_no_other_arithmetic():
    mod = NETWORKS["residual"]()
    keys = [
        {task.key for task in network_tasks(mod, AVX2, QuantConfig(requantize=requantize))}
        for requantize in REQUANTIZE
    ]
    assert len(set.union(*keys)) > len(keys[0])
    for place, one in enumerate(keys):
        scaled = {key for key in one if "conv2d" in key}
        assert scaled
        for other in keys[place + 1 :]:
            assert not scaled & other


@pytest.mark.fast
def test_an_unknown_rounding_is_named():
    with pytest.raises(ConfigError, match="requantize 'half-even' is unknown; choose one of float"):
        QuantConfig(requantize="half-even")


def test_the_artifact_says_so_and_is_as_accurate(tmp_path):
    digits, path = load_images(), tmp_path / "digits.ri8"
    calibration, config = [digits.calibration[:40]], QuantConfig(requantize="gemmlowp")
    report = compile_model(
        MODEL, calibration, path, samples=2, config=config, imports=ImportOptions(batch=1)
    )
    module = load(path)
    assert report.settings["requantize"] == "fixed (gemmlowp)"
    assert module.manifest.settings["requantize"] == "fixed (gemmlowp)"
    assert report.outputs[0].snr_db > 20
    found = [module.run({"image": image[None]})["logits"].argmax() for image in digits.test[:100]]
    assert (np.array(found) == digits.labels[:100]).mean() >= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_accuracy_of_a_trained_network(shared_data, rounding: Requantize, full: bool):
    if not full:
        pytest.skip("minutes; --full runs it")
    subject = TrainedNetwork(open_networks(shared_data)["resnet8"])
    plain, fixed = (
        subject.score(subject.outputs(subject.quantized(QuantConfig(requantize=requantize)).run))
        for requantize in ("float", rounding)
    )
    # gemmlowp rounds twice; where multipliers are near one that is a quarter of a step.
    assert abs(plain.metric - fixed.metric) <= 0.004
    assert abs(plain.snr_db - fixed.snr_db) <= (0.3 if rounding == "gemmlowp" else 0.05)
