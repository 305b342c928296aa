"""Whole detectors: integers up to the suppression, one file, and a score that means something."""

import numpy as np
import pytest
import tvm

import relay_int8
from relay_int8 import Demand, ImportOptions, QuantConfig
from relay_int8.compiler.build import compile_module
from relay_int8.graph.batch import with_batch
from relay_int8.graph.compared import compared_tensors, returning
from schedules.reference.kernels import reference
from schedules.spec import Suppression
from tests.compiled import UNOPTIMIZED, run_executable
from tests.cuda.run_network import EmulatedNetwork
from tests.cuda.run_template import SM_61
from tests.detection_networks import SIZE, mxnet_ssd, tflite_ssd
from tests.mxnet_models import MxnetModel

CONFIG = QuantConfig(method="max")  # one pass over the data


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """Return pictures, (n, c, h, w), of which neighbouring pixels are alike."""
    rng = np.random.default_rng(0)
    coarse = rng.normal(size=(8, 3, 4, 4)).repeat(SIZE // 4, 2).repeat(SIZE // 4, 3)
    return (coarse + 0.3 * rng.normal(size=(*coarse.shape[:2], SIZE, SIZE))).astype("float32")


@pytest.fixture(scope="module")
def tflite(tmp_path_factory, images):
    path = tmp_path_factory.mktemp("tflite") / "ssd.tflite"
    path.write_bytes(tflite_ssd(regular=True).written())
    data = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    return relay_int8.quantize(relay_int8.load_model(path), data, CONFIG), data


@pytest.fixture(scope="module")
def gluon(tmp_path_factory, images):
    net = MxnetModel()
    path = net.save(tmp_path_factory.mktemp("mxnet"), mxnet_ssd(net, gluon=True))
    model = relay_int8.load_model(path, ImportOptions(inputs={"data": (1, 3, SIZE, SIZE)}))
    return relay_int8.quantize(model, images, CONFIG), images


def run(mod: tvm.IRModule, image: np.ndarray) -> list[np.ndarray]:
    """Compile with the kernels of this project, without optimization, and run."""
    return run_executable(compile_module(mod, UNOPTIMIZED).executable, [image])


def test_file_and_report(tflite, tmp_path):
    quantized, data = tflite
    artifact = relay_int8.build(quantized)
    report = relay_int8.measure(artifact, samples=2)
    assert report.coverage["float_macs"] == 0 and report.coverage["int8_layers"] >= 9
    assert [(output.name, output.reader) for output in report.outputs] == [
        ("y40/of_classes", "y40/kept"), ("y40/boxes", "y40/kept"),
    ]  # fmt: skip
    assert all(output.snr_db > 25 for output in report.outputs)
    assert report.outputs[0].title == "before suppression, y40/of_classes"
    artifact.save(tmp_path / "ssd.ri8")
    found = relay_int8.load(tmp_path / "ssd.ri8").run({"image": data[:1]})
    expected = run(quantized.network.mod, data[:1])
    assert list(found) == ["y40", "y41", "y42", "y43"]
    for array, wanted in zip(found.values(), expected, strict=True):
        np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=1e-6)


def test_what_is_kept_is_what_the_quantized_boxes_say(tflite):
    quantized, data = tflite
    mod = quantized.network.mod
    names = [*compared_tensors(mod["main"]), "y40/kept"]
    scores, boxes, kept = run(returning(mod, names), data[:1])
    spec = Suppression(batch=1, boxes=boxes.shape[1], classes=scores.shape[1], max_output=10)
    bounds = {
        "least": np.float32([np.nextafter(np.float32(1e-8), 0)]),
        "overlap": np.float32([0.6]),
    }
    expected = reference(spec, {"boxes": boxes, "scores": scores}, bounds)
    np.testing.assert_array_equal(kept, expected)


def test_images_of_a_batch_stay_apart(gluon):
    quantized, data = gluon
    (together,) = run(with_batch(quantized.network.mod, 2), data[:2])
    for image in range(2):
        (alone,) = run(quantized.network.mod, data[image : image + 1])
        np.testing.assert_allclose(together[image], alone[0], rtol=1e-5, atol=1e-5)


def test_decibels_are_of_scores_and_boxes(gluon):
    quantized, data = gluon
    measured = relay_int8.quantize(
        quantized.model, data, CONFIG, demand=Demand(min_snr_db=20, data=data[:2])
    )
    assert measured.met.floats == () and measured.met.reached > 20


def test_on_a_gpu(tflite):
    quantized, data = tflite
    mod = quantized.network.mod
    found = EmulatedNetwork(mod, SM_61).run({"image": data[:1]})
    for index, array in enumerate(run(mod, data[:1])):
        np.testing.assert_allclose(found[f"outputs:{index}"], array, rtol=1e-5, atol=1e-5)
