"""A trained vision transformer keeps its accuracy in integers, and its training is right."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import relay_int8
from benchmarks import zoo
from relay_int8 import demo
from relay_int8.report.contents import Report
from scripts import train_digits_vit
from tests.onnx_models import run_onnx

MODEL = Path(__file__).with_name("digits_vit.onnx")
"""Written by scripts/train_digits_vit.py; 0.9675 of the demo's test images are classified right."""
HALF_A_POINT = 0.005


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Report]:
    """The network quantized by default: its artifact and its report."""
    calibration = [{"input": image[None]} for image in demo.load_images().calibration[:100]]
    artifact = relay_int8.build(relay_int8.quantize(relay_int8.load_model(MODEL), calibration))
    file = tmp_path_factory.mktemp("digits") / "digits_vit.ri8"
    artifact.save(file)
    return file, artifact.report


def accuracy(logits: list[np.ndarray]) -> float:
    return (np.concatenate(logits).argmax(1) == demo.load_images().labels).mean()


@pytest.mark.fast
def test_file_is_small_and_is_the_networks():
    assert MODEL.stat().st_size < 200_000
    untrained, trained = train_digits_vit.untrained(), onnx.load(MODEL)
    assert trained.graph.node == untrained.graph.node
    assert {tensor.name for tensor in trained.graph.initializer} == {
        tensor.name for tensor in untrained.graph.initializer
    }


def test_int8_is_within_half_a_point_of_float32(built):
    images = demo.load_images().test
    session = relay_int8.load(built[0])
    float32 = accuracy([train_digits_vit.Model(onnx.load(MODEL)).forward(images[:, 0])[0]])
    int8 = accuracy([next(iter(session.run({"input": image[None]}).values())) for image in images])
    assert float32 >= 0.96
    assert abs(int8 - float32) <= HALF_A_POINT


def test_report_counts_every_product(built):
    report = built[1]
    network = train_digits_vit.NETWORK
    net = zoo.TokenNetwork(batch=1, seed=None, opset=network.opset)
    network.write(net, network.size, network.classes)
    # The head reads the class token, so that the last block's MLP computes none of the patches.
    unread = (network.size // network.patch) ** 2 * 2 * network.width * network.hidden
    coverage = report.coverage
    assert coverage["int8_macs"] == net.cost.macs - unread
    assert coverage["float_macs"] == 0


@pytest.mark.fast
def test_forward_is_what_the_file_computes():
    model = train_digits_vit.Model(onnx.load(MODEL))
    images = demo.load_images().test[:3]
    logits, _ = model.forward(images[:, 0])
    for image, row in zip(images, logits, strict=True):
        np.testing.assert_allclose(run_onnx(model.proto, image[None])[0][0], row, atol=1e-5)


@pytest.mark.fast
def test_gradients_are_differences():
    """One random weight of every tensor, moved a little in float64."""
    rng = np.random.default_rng(0)
    model = train_digits_vit.Model(train_digits_vit.untrained())
    model.parameters = {key: a.astype("float64") for key, a in model.parameters.items()}
    images = rng.normal(size=(3, 8, 8))
    logits, backward = model.forward(images)
    weights = rng.normal(size=logits.shape)
    backward(weights)
    assert set(model.gradients) == set(model.parameters)
    for name, value in model.parameters.items():
        index = tuple(rng.integers(0, extent) for extent in value.shape)
        sides = []
        for move in (1e-6, -1e-6):
            moved = value.copy()
            moved[index] += move
            model.parameters[name] = moved
            sides.append((model.forward(images)[0] * weights).sum())
        model.parameters[name] = value
        assert model.gradients[name][index] == pytest.approx(
            (sides[0] - sides[1]) / 2e-6, rel=1e-5, abs=1e-6
        ), name


@pytest.mark.fast
def test_a_step_moves_against_the_gradient():
    model = train_digits_vit.Model(train_digits_vit.untrained())
    images, labels = demo.load_images().test[:50, 0], demo.load_images().labels[:50]
    target = np.eye(10, dtype="float32")[labels]

    def loss() -> float:
        logits, backward = model.forward(images)
        p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        backward(p - target)
        return -np.log((p * target).sum(1)).mean()

    first = loss()
    for _ in range(5):
        model.step(1e-3)
        last = loss()
    assert last < 0.9 * first
