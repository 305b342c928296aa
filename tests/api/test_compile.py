"""From a model file to an artifact in one call: the demo's network, end to end."""

import json

import numpy as np
import pytest
from tvm import relax

import relay_int8
from relay_int8 import BuildOptions, ImportOptions
from relay_int8.calibration import CalibrationTable, open_data
from relay_int8.demo import MODEL, load_images
from relay_int8.errors import CalibrationError, ConfigError, FrontendError
from relay_int8.graph.dataflow import FunctionWriter
from relay_int8.numerics.snr import snr_db
from relay_int8.report.accuracy import evaluate
from relay_int8.report.contents import INT16_SATURATION

BATCH_1 = ImportOptions(batch=1)
CALIBRATION_IMAGES, TEST_IMAGES = 60, 200


@pytest.fixture(scope="module")
def digits():
    return load_images()


@pytest.fixture(scope="module")
def fp32():
    return relay_int8.float_network(relay_int8.load_model(MODEL, BATCH_1))


@pytest.fixture(scope="module")
def compiled(digits, tmp_path_factory):
    """Return (folder with digits.ri8, report.json and table.json; report; stages)."""
    folder = tmp_path_factory.mktemp("digits")
    stages = []
    report = relay_int8.compile_model(
        MODEL,
        [digits.calibration[:CALIBRATION_IMAGES]],
        folder / "digits.ri8",
        config=relay_int8.QuantConfig(method="percentile"),
        report=folder / "report.json",
        save_table=folder / "table.json",
        progress=lambda stage, done, total: stages.append((stage, done, total)),
        imports=BATCH_1,
    )
    return folder, report, stages


def outputs(artifact, images):
    module = relay_int8.load(artifact)
    return np.concatenate([module.run(image[None])["logits"] for image in images])


@pytest.mark.fast
def test_hazards_of_other_runtimes_are_reported_where_the_network_goes_there(
    compiled, digits, tmp_path
):
    exported = relay_int8.compile_model(
        MODEL, [digits.calibration[:CALIBRATION_IMAGES]], tmp_path / "a.ri8", samples=0,
        qdq=tmp_path / "a.onnx", imports=BATCH_1,
    )  # fmt: skip
    assert INT16_SATURATION in {hazard.kind for hazard in exported.hazards}
    assert INT16_SATURATION not in {hazard.kind for hazard in compiled[1].hazards}


@pytest.mark.fast
def test_every_layer_is_integer_and_has_a_kernel(compiled):
    _, report, _ = compiled
    assert report.coverage["float_layers"] == 0
    assert report.coverage["int8_layers"] == len(report.layers) > 8
    for layer in report.layers:
        assert layer.kernel or layer.kind == "reshape", layer


@pytest.mark.fast
def test_report_is_measured(compiled, fp32, digits):
    folder, report, _ = compiled
    assert report.samples == 8
    for layer in report.layers:
        assert layer.snr_db is not None and layer.snr_db > 10, layer
        assert 0 <= layer.saturation < 0.2, layer
    images = digits.calibration[:8]
    wanted = np.concatenate([fp32({"image": image[None]})["logits"] for image in images])
    found = outputs(folder / "digits.ri8", images)
    assert report.outputs[0].snr_db == pytest.approx(snr_db(wanted, found))
    assert report.latency_ms["int8"] > 0
    timed = sum(layer.time_us or 0 for layer in report.layers) + sum(report.other_us.values())
    assert 0 < timed < 1e6
    assert report.artifact_bytes == (folder / "digits.ri8").stat().st_size
    assert set(report.seconds) == {
        "import",
        "quantize",
        "build",
        "export",
        "compare",
        "measure",
        "ranges",
        "histograms",
    }


@pytest.mark.fast
def test_report_and_manifest_agree(compiled):
    folder, report, _ = compiled
    manifest = relay_int8.read_manifest(folder / "digits.ri8")
    assert (folder / "report.json").read_text() == report.to_json()
    assert manifest.model_digest == report.digest
    assert manifest.coverage == report.coverage
    assert [info.name for info in manifest.inputs + manifest.outputs] == ["image", "logits"]
    assert manifest.inputs[0].shape == (1, 1, 8, 8)


@pytest.mark.fast
def test_stages_are_reported_in_order(compiled):
    _, _, stages = compiled
    names = list(dict.fromkeys(stage for stage, _, _ in stages))
    order = ["import", "quantize", "ranges", "histograms", "build", "export", "compare", "measure"]
    assert names == order
    assert stages[-1] == ("measure", 1, 1)


@pytest.mark.fast
def test_accuracy_stays(compiled, fp32, digits):
    folder, _, _ = compiled
    module = relay_int8.load(folder / "digits.ri8")
    images = open_data([digits.test[:TEST_IMAGES]], module.manifest.inputs)
    labels = digits.labels[:TEST_IMAGES]
    result = evaluate(module, images, labels=labels, reference=fp32)
    assert result.samples == TEST_IMAGES
    assert result.reference_top1 > 0.95
    assert result.top1 >= result.reference_top1 - 0.01
    assert result.agreement >= 0.98
    assert result.snr_db > 20


@pytest.mark.parametrize("target", ["x86-avx2", "x86"])
@pytest.mark.isa("avx2")
def test_table_gives_the_same_integers_on_other_targets(compiled, digits, tmp_path, target):
    folder, report, _ = compiled
    table = CalibrationTable.load(folder / "table.json")
    again = relay_int8.compile_model(
        MODEL,
        table,
        tmp_path / "a.ri8",
        imports=BATCH_1,
        options=BuildOptions(target=target),
    )
    assert again.digest == report.digest
    assert again.samples == 0
    images = digits.test[:16]
    np.testing.assert_array_equal(
        outputs(tmp_path / "a.ri8", images), outputs(folder / "digits.ri8", images)
    )


def test_batch_of_the_artifact(compiled, digits, tmp_path):
    folder, _, _ = compiled
    table = CalibrationTable.load(folder / "table.json")
    relay_int8.compile_model(
        MODEL, table, tmp_path / "four.ri8", imports=relay_int8.ImportOptions(batch=4)
    )
    four = relay_int8.load(tmp_path / "four.ri8").run(digits.test[:4])["logits"]
    np.testing.assert_array_equal(four, outputs(folder / "digits.ri8", digits.test[:4]))


@pytest.mark.fast
def test_preview_needs_no_data():
    report = relay_int8.preview(relay_int8.load_model(MODEL, BATCH_1))
    assert {layer.kind for layer in report.layers} >= {"conv2d", "dense", "avg_pool2d"}
    assert report.coverage["float_layers"] == 0


@pytest.mark.fast
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"model": "none.onnx"}, FrontendError, "none.onnx"),
        ({"model": "text.onnx"}, FrontendError, "text.onnx"),
        ({"imports": ImportOptions(inputs={"y": (1,)})}, ConfigError, "no such input; it has"),
        ({"data": "none.npz"}, CalibrationError, "no such file"),
        ({"data": []}, CalibrationError, "no image found"),
        (
            {"options": BuildOptions(target="x86-mmx")},
            ConfigError,
            "'x86-mmx' is unknown; choose one of native",
        ),
        (
            {"options": BuildOptions(target="sm_80", compact=True)},
            ConfigError,
            "the target is cuda, whose kernels have no others",
        ),
        ({"data": CalibrationTable(entries={})}, CalibrationError, "does not fit the model"),
    ],
)
def test_bad_input_writes_nothing(tmp_path, monkeypatch, digits, changes, error, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.onnx").write_text("no model")
    arguments = {"model": MODEL, "data": [digits.calibration[:2]], "imports": BATCH_1} | changes
    with pytest.raises(error, match=message):
        relay_int8.compile_model(
            arguments.pop("model"), arguments.pop("data"), "a.ri8", report="r.json", **arguments
        )
    assert [path.name for path in tmp_path.iterdir()] == ["text.onnx"]


@pytest.mark.fast
def test_report_json_is_readable(compiled):
    folder, _, _ = compiled
    values = json.loads((folder / "report.json").read_text())
    assert values["coverage"]["float_layers"] == 0
    assert {"name", "kind", "integer", "reason", "kernel", "snr_db"} <= set(values["layers"][0])


@pytest.mark.fast
@pytest.mark.parametrize("file", ["report", "save_table", "qdq"])
def test_a_file_without_a_folder_is_refused_before_anything_runs(digits, tmp_path, file):
    missing = tmp_path / "absent" / "file"
    with pytest.raises(ConfigError, match=r"there is no folder .*absent to write it to"):
        relay_int8.compile_model(
            MODEL, [digits.calibration[:2]], tmp_path / "m.ri8", **{file: missing}
        )
    assert not list(tmp_path.iterdir())


def test_times_are_of_the_threads_there_are(compiled, digits, tmp_path):
    threads = 64
    most = relay_int8.load(compiled[0] / "digits.ri8").threads
    report = relay_int8.compile_model(
        MODEL,
        [digits.calibration[:2]],
        tmp_path / "m.ri8",
        samples=0,
        imports=BATCH_1,
        options=BuildOptions(threads=threads),
    )
    assert report.machine["threads"] == min(threads, most)
    assert relay_int8.load(tmp_path / "m.ri8").threads == most


def test_a_network_that_computes_nothing(tmp_path):
    """A PyTorch program of one concat of one tensor is its input."""
    var = relax.Var("x", relax.TensorType((1, 3), "float32"))
    network = relay_int8.Model(module=FunctionWriter().finish([var], [var]), name="nothing")
    quantized = relay_int8.quantize(network, np.ones((4, 3), "float32"))
    relay_int8.build(quantized).save(tmp_path / "nothing.ri8")
    x = np.arange(3, dtype="float32").reshape(1, 3)
    outputs = relay_int8.load(tmp_path / "nothing.ri8").run({"x": x})
    np.testing.assert_array_equal(next(iter(outputs.values())), x)
