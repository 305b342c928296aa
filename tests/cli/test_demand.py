"""relay-int8 quantize --max-drop and --min-snr: refusals, and one network end to end."""

import json

import numpy as np
import onnx
import pytest

import relay_int8
from relay_int8.errors import AccuracyError
from tests.wide_network import HARMED, OUTPUT, wide_images, wide_network

BY_TOP1 = ["--preset", "auto", "--metric", "top-1", "--labels", "c.txt"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write a model, calibration images, others, and their classes as FP32 sees them."""
    monkeypatch.chdir(tmp_path)
    onnx.save(wide_network(), "wide.onnx")
    fp32 = relay_int8.float_network(relay_int8.load_model("wide.onnx"))
    images = wide_images(100, seed=1)
    np.save("calibration.npy", wide_images(40))
    np.save("images.npy", images)
    classes = [int(fp32({"x": x[None]})[OUTPUT].argmax()) for x in images]
    (tmp_path / "classes.txt").write_text("\n".join(map(str, classes)))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-drop", 1], "give the classes of the images with"),
        (["--max-drop", 1, "--labels", "c.txt", "--min-snr", 20], "are both given"),
        (["--max-drop", -1, "--labels", "c.txt"], "0 or more"),
        (["--min-snr", "nan"], "nan found, a number expected"),
        (["--min-snr", 20, "--labels", "c.txt"], "--labels are of --max-drop"),
        (["--labels", "c.txt"], "--labels are of --max-drop"),
        (["--eval-data", "i.npy"], "neither is given"),
        (["--metric", "agreement"], "neither is given"),
        (["--metric", "agreement", "--min-snr", 20], "neither is given"),
        (["--metric", "top-5", "--preset", "auto"], "--metric top-5: top-1, mean-iou, agreement"),
        (["--metric", "top-1", "--preset", "auto"], "--metric top-1 needs --labels"),
        (["--metric", "mean-iou", "--max-drop", 1], "--metric mean-iou needs --labels"),
        (["--metric", "agreement", "--max-drop", 1, "--labels", "c"], "leave --labels out"),
        (
            [*BY_TOP1, "--min-snr", 20, "--eval-data", "i.npy"],
            "take agreement",
        ),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_is_read(invoke, options, message):
    given = ["quantize", "no.onnx", "--data", "no.npy", "-o", "no/no.ri8", *options]
    code, _, err = invoke(*given)
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())


@pytest.mark.fast
def test_a_table_alone_has_no_images_to_measure_on(invoke):
    given = ["quantize", "no.onnx", "--table", "t.json", "-o", "no.ri8", "--min-snr", 20]
    code, _, err = invoke(*given)
    assert code == 2 and "there are no images" in " ".join(err.replace("│", " ").split())


@pytest.mark.fast
def test_a_metric_of_auto_needs_images(invoke):
    given = ["quantize", "no.onnx", "--table", "t.json", "-o", "no.ri8", "--preset", "auto"]
    code, _, err = invoke(*given, "--metric", "agreement")
    assert code == 2 and "on the images of --data" in " ".join(err.replace("│", " ").split())


@pytest.mark.fast
def test_a_demand_that_nothing_meets_has_an_exit_code(invoke, tmp_path, monkeypatch):
    def compile_model(*_, demand, **__):
        raise AccuracyError(f"{demand} is demanded")

    monkeypatch.setattr(relay_int8, "compile_model", compile_model, raising=False)
    data = ("--data", tmp_path / "x.npy", "-o", tmp_path / "a.ri8")
    code, _, err = invoke("quantize", tmp_path / "a.onnx", *data, "--min-snr", 20)
    assert code == 3 and "error: SNR at least 20 dB is demanded" in err


@pytest.mark.usefixtures("files")
def test_a_demand_by_the_command_line(invoke, tmp_path):
    code, out, err = invoke(
        "quantize", "wide.onnx", "--data", "calibration.npy", "-o", "wide.ri8",
        "--max-drop", 2, "--labels", "classes.txt", "--eval-data", "images.npy", "--json",
        "--report", "report.json", "--samples", 0, "--method", "max",
    )  # fmt: skip
    assert code == 0, err
    assert "demanded: top-1 at most 2 percentage points below FP32" in err
    demand = json.loads(out)["demand"]
    assert demand["floats"] == [HARMED] and demand["reached"] >= 0.98 > demand["int8"]
    assert json.loads((tmp_path / "report.json").read_text())["demand"] == demand
    given = ("--data", "images.npy", "--labels", "classes.txt", "--fp32", "wide.onnx")
    code, _, err = invoke("evaluate", "wide.ri8", *given, "--max-drop", 2)
    assert code == 0, err
    code, _, err = invoke("evaluate", "wide.ri8", *given, "--json", "--report", "e.json")
    assert json.loads((tmp_path / "e.json").read_text())["top1"] == demand["reached"]


@pytest.mark.fast
def test_masks_are_read_for_mean_iou(invoke, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(relay_int8, "compile_model", lambda *_, **named: given.append(named))
    monkeypatch.setattr("relay_int8.cli.summary.print_summary", lambda *_, **__: None)
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((2, 3, 4, 4), np.float32))
    np.save("masks.npy", np.ones((2, 4, 4), np.uint8))
    options = ("--data", "x.npy", "-o", "a.ri8", "--metric", "mean-iou", "--labels", "masks.npy")
    code, out, err = invoke("quantize", "a.onnx", *options, "--preset", "auto")
    assert code == 0 and "metric: mean-iou" in out, err
    code, out, err = invoke("quantize", "a.onnx", *options, "--max-drop", 1)
    assert code == 0, err
    assert "demanded: mean-iou at most 1 percentage points below FP32" in out
    by_auto, by_demand = given
    assert by_auto["metric"] == "mean-iou" and len(by_auto["labels"]) == 2
    assert by_auto["demand"] is None and by_demand["metric"] is by_demand["labels"] is None
    assert by_demand["demand"].measure == "mean-iou" and len(by_demand["demand"].labels) == 2


@pytest.mark.usefixtures("files")
def test_auto_by_a_metric_by_the_command_line(invoke):
    code, out, err = invoke(
        "quantize", "wide.onnx", "--data", "images.npy", "-o", "wide.ri8", "--preset", "auto",
        "--metric", "top-1", "--labels", "classes.txt", "--json", "--samples", 0,
    )  # fmt: skip
    assert code == 0, err
    settings = json.loads(out)["settings"]
    assert settings["metric"].startswith("top-1, on 100 images not seen: FP32 1.0000, default ")
