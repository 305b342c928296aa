"""relay-int8 quantize, then evaluate against the FP32 model: what scripts/demo does."""

import json
import re

import numpy as np
import onnx
import pytest
from PIL import Image

from relay_int8.demo import MODEL, load_images
from relay_int8.frontend.model import import_model
from relay_int8.frontend.options import ImportOptions
from relay_int8.quantization.model_tensors import ModelTensors
from tests.pages import Reader


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    digits = load_images()
    np.save(folder / "calibration.npy", digits.calibration[:40])
    np.save(folder / "test.npy", digits.test[:100])
    np.save(folder / "labels.npy", digits.labels[:100])
    return folder


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Return the options of a calibration table, for what is not about images."""
    path = tmp_path_factory.mktemp("ranges") / "ranges.json"
    path.write_text(
        json.dumps(
            dict.fromkeys(ModelTensors.of(import_model(MODEL, ImportOptions(batch=1))).schemes, 4.0)
        )
    )
    return "--table", path, "--no-bias-correction"


@pytest.mark.fast
def test_quantize_then_evaluate(invoke, images, tmp_path):
    code, out, err = invoke(
        "quantize", MODEL, "--batch", 1, "--data", images / "calibration.npy", "--require-int8",
        "--method", "percentile", "-o", tmp_path / "a.ri8", "--report", tmp_path / "r.json",
        "--save-table", tmp_path / "t.json",
    )  # fmt: skip
    assert code == 0, err
    assert "block3.relu" in out
    assert "100.00% of the MACs" in out
    ended = re.findall(r"^(\w+): [0-9.]+ s$", err, re.MULTILINE)
    assert ended == [
        "import", "ranges", "histograms", "quantize", "build", "export", "compare", "measure",
    ]  # fmt: skip
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["settings"]["method"] == "percentile"
    assert report["table_hash"] == json.loads((tmp_path / "t.json").read_text())["model_hash"] != ""
    arguments = ["--data", images / "test.npy", "--labels", images / "labels.npy", "--fp32", MODEL]
    code, out, err = invoke("evaluate", tmp_path / "a.ri8", *arguments, "--max-drop", 2)
    assert code == 0, err
    assert "same class as FP32" in out


@pytest.mark.fast
def test_a_budget_is_for_a_search(invoke, images, tmp_path):
    data = images / "calibration.npy"
    command = "quantize", MODEL, "--data", data, "-o", tmp_path / "a.ri8", "--budget", 60
    code, _, err = invoke(*command)
    assert code == 1 and "choose preset auto" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fast
def test_blank_images_are_a_hazard_and_with_strict_an_error(invoke, images, tmp_path):
    blank = tmp_path / "blank.npy"
    np.save(blank, np.zeros_like(np.load(images / "calibration.npy")))
    given = ["quantize", MODEL, "--batch", 1, "--data", blank, "-o", tmp_path / "a.ri8"]
    code, _, err = invoke(*given, "--strict")
    assert code == 1
    assert "error: strict was asked for" in err and "it is 0 everywhere" in err
    assert not (tmp_path / "a.ri8").exists()


def test_the_report_as_a_page(invoke, images, tmp_path):
    pytest.importorskip("plotly")
    code, _, err = invoke(
        "quantize", MODEL, "--batch", 1, "--data", images / "calibration.npy", "--samples", 0,
        "--sensitivity", 2, "-o", tmp_path / "a.ri8", "--report", tmp_path / "r.html",
        "--save-table", tmp_path / "t.json",
    )  # fmt: skip
    assert code == 0, err
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    tensors = json.loads((tmp_path / "t.json").read_text())["tensors"]
    assert "block3.relu" in tensors
    for name, entry in tensors.items():
        assert f'<td class="text" data-name="tensor">{name}</td>' in page
        assert "histogram" in entry
    assert "kl-tensorrt" in page
    rows = {row["layer"]: row for row in Reader(page).rows("place")}
    assert len(rows) > 5
    for row in rows.values():
        measured = [row["alone dB"], row["without dB"]]
        if row["MMAC"]:
            assert min(map(float, measured)) > 10
        else:
            assert measured == ["-", "-"]
    options = ("--batch", 1, "--table", tmp_path / "t.json", "-o", tmp_path / "b.ri8")
    code, _, err = invoke("quantize", MODEL, *options, "--sensitivity", 2)
    assert code == 1 and "sensitivity quantizes a float model anew on images" in err
    assert not (tmp_path / "b.ri8").exists()


@pytest.mark.fast
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--requantize", "fixed"), "requantize: fixed (gemmlowp)"),
        (("--requantize", "fixed", "--rounding", "tpu-mlir"), "requantize: fixed (tpu-mlir)"),
        ((), "requantize: float"),
    ],
)
def test_requantization_is_resolved(invoke, tmp_path, options, expected):
    """What is asked for is printed first; a folder without images ends the command."""
    (tmp_path / "none").mkdir()
    code, out, _ = invoke(
        "quantize", MODEL, "--batch", 1, "--data", tmp_path / "none", "-o", tmp_path / "a.ri8",
        *options,
    )  # fmt: skip
    assert code == 1
    assert expected in out


@pytest.mark.fast
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rounding", "tflite"), "--rounding tflite is of --requantize fixed"),
        (("--requantize", "int"), "--requantize int: float or fixed is expected"),
        (("--requantize", "fixed", "--rounding", "even"), "gemmlowp, tflite, tpu-mlir are known"),
    ],
)
def test_requantization_that_there_is_not(invoke, images, tmp_path, options, message):
    data = images / "calibration.npy"
    code, _, err = invoke("quantize", MODEL, "--data", data, "-o", tmp_path / "a.ri8", *options)
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())


@pytest.mark.fast
def test_excluded_layer_is_no_failure(invoke, table, tmp_path):
    code, out, err = invoke(
        "quantize", MODEL, "--batch", 1, *table, "--require-int8",
        "--exclude", "logits", "--exclude", "pool", "-o", tmp_path / "a.ri8",
        "--report", tmp_path / "r.json",
    )  # fmt: skip
    assert code == 0, err
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["settings"]["exclude"] == ["logits", "pool"]
    floats = [layer["name"] for layer in report["layers"] if not layer["integer"]]
    # the sum before the pool too: no integers read it any more
    assert floats == ["block3.relu", "pool", "flatten", "logits"]
    assert "In float, and why" in out
    assert "compare" not in err
    assert report["layers"][0]["snr_db"] is None


@pytest.mark.parametrize(
    ("demand", "expected"), [("--require-int8-products", 0), ("--require-int8", 3)]
)
def test_layer_without_an_integer_form(invoke, table, tmp_path, demand, expected):
    model = onnx.load(MODEL)
    model.graph.node.append(onnx.helper.make_node("Softmax", ["logits"], ["p"], "softmax"))
    model.graph.output[0].name = "p"
    onnx.save(model, tmp_path / "m.onnx")
    code, out, err = invoke(
        "quantize", tmp_path / "m.onnx", "--batch", 1, *table, "-o", tmp_path / "a.ri8", demand,
    )  # fmt: skip
    assert code == expected, err
    assert (tmp_path / "a.ri8").exists() == (not expected)
    if expected:
        assert "int8 was required, but these layers stay in float: p (" in err
    else:
        assert "In float, and why" in out


@pytest.mark.fast
def test_unknown_exclusion(invoke, images, tmp_path):
    code, _, err = invoke(
        "quantize", MODEL, "--batch", 1, "--data", images / "calibration.npy",
        "--exclude", "lojits", "-o", tmp_path / "a.ri8",
    )  # fmt: skip
    assert code == 1
    assert "exclude lojits: no layer has such a name or type" in err


def test_pictures_are_prepared_as_the_manifest_says(invoke, tmp_path):
    """Pictures in, with a recipe that only quantize is told; evaluate finds it in the artifact."""
    folder, digits = tmp_path / "pictures", load_images()
    folder.mkdir()
    for number, image in enumerate(digits.test[:40]):
        pixels = np.rint(image[0] * 255).astype("uint8")
        Image.fromarray(pixels).save(folder / f"{number:03}.png")
    (tmp_path / "labels.txt").write_text(" ".join(map(str, digits.labels[:40])))
    (tmp_path / "grey.toml").write_text(f"scale = {1 / 255}\nchannels = 'L'")
    code, out, err = invoke(
        "quantize", MODEL, "--batch", 1, "--data", folder, "--preprocess", tmp_path / "grey.toml",
        "--method", "max", "--samples", 0, "-o", tmp_path / "a.ri8", "--json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["coverage"]["float_layers"] == 0
    assert f"{MODEL} -> {tmp_path / 'a.ri8'}" in err
    code, out, err = invoke("run", tmp_path / "a.ri8", folder / "000.png")
    assert code == 0, err
    assert int(out.splitlines()[1].split()[0]) == digits.labels[0]
    arguments = ["--data", folder, "--labels", tmp_path / "labels.txt", "--min-top1", 0.9]
    assert invoke("evaluate", tmp_path / "a.ri8", *arguments)[0] == 0
    code, _, err = invoke("evaluate", tmp_path / "a.ri8", *arguments, "--preprocess", "raw")
    assert code == 1
    assert "1 x 3 x 8 x 8 found" in err


@pytest.mark.fast
def test_an_artifact_is_no_model(invoke, tmp_path):
    code, _, err = invoke("quantize", tmp_path / "a.ri8", "-o", tmp_path / "b.ri8")
    assert code == 2
    assert "is an artifact, which quantize made of a" in " ".join(err.replace("│", "").split())


@pytest.mark.fast
def test_inspect_model(invoke):
    code, out, _ = invoke("inspect", MODEL, "--batch", 1, "--json")
    assert code == 0
    assert json.loads(out)["coverage"]["float_layers"] == 0
    code, out, _ = invoke("inspect", MODEL, "--batch", 1)
    assert code == 0
    assert f"\n{MODEL.name}\n" in out  # no digest: nothing is quantized


@pytest.mark.fast
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "none.npy"], "no such file"),
        ([], "give calibration images or a calibration table, as --data or --table"),
        (["--data", "x.npy", "--plan", "none.json"], "none.json: cannot be read as a plan"),
        (["--data", "x.npy", "--plan", "list.json"], "list.json: not a plan of relay-int8"),
        (["--table", "none.json"], "cannot be read as a calibration table"),
        (["--data", "x.npy", "--target", "x86", "--no-cuda-graphs"], "is llvm, which has none"),
        (["--table", "t.json", "--method", "mse"], "--method mse would have no effect"),
        (["--data", "x.npy", "--preset", "int4"], "preset 'int4' is unknown"),
        (["--data", "x.npy", "--method", "guess"], "'guess' is unknown"),
        (["--data", "x.npy", "--target", "x86-mmx"], "'x86-mmx' is unknown"),
        (["--data", "x.npy", "--preprocess", "zoom"], "'zoom' is none of imagenet"),
        (["--data", "x.npy", "--preprocess", "none.toml"], "none.toml: cannot be read"),
        (["--data", "x.npy", "--preprocess", "list.json"], "a table of settings is expected"),
        (["--data", "x.npy", "--preprocess", "odd.toml"], "preprocessing has no zoom"),
        (["--data", "x.npy", "--preprocess", "unit"], "preprocessing is for a folder of pictures"),
        (["--data", "nan.npy"], "NaN or infinite"),
        (["--data", "flat.npy"], "axes expected"),
        (["--data", "x.npy", "--exclude", "dense", "--batch", "0"], "Invalid value"),
    ],
)
def test_errors_are_messages(invoke, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    x = load_images().calibration[:2]
    np.save("x.npy", x)
    np.save("nan.npy", np.full_like(x, np.nan))
    np.save("flat.npy", x.reshape(2, -1))
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "odd.toml").write_text("zoom = 2")
    code, _, err = invoke("quantize", MODEL, "--batch", 1, "-o", "a.ri8", *arguments)
    assert code == (2 if "Invalid" in message else 1)
    assert message in err
    assert not (tmp_path / "a.ri8").exists()


@pytest.mark.fast
@pytest.mark.parametrize("at", ["before", "after"])
def test_ctrl_c_says_what_is_written(invoke, tmp_path, monkeypatch, at):
    network, report = tmp_path / "n.ri8", tmp_path / "r.json"
    network.write_text("of an earlier run")

    def stopped(*_, **__):
        if at == "after":
            network.unlink()
            network.write_text("a new one")
        raise KeyboardInterrupt

    monkeypatch.setattr("relay_int8.compile_model", stopped)
    arguments = [MODEL, "--data", tmp_path, "-o", network, "--report", report]
    code, _, err = invoke("quantize", *arguments)
    assert code == 130
    assert err.endswith(f"stopped; written: {network if at == 'after' else 'nothing'}\n")
