"""relay-int8 evaluate: accuracy against labels, and demands on it."""

import numpy as np
import pytest
from onnx import helper, save

from relay_int8.report.accuracy import Evaluation, read_evaluation
from tests.onnx_models import model

pytestmark = pytest.mark.fast

# Five images for an artifact of batch 2: the last batch is filled up, and the filler not counted.
X = np.eye(3, dtype="float32")[[0, 1, 2, 2, 0]]
LABELS = [0, 1, 2, 1, 0]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    np.save("labels.npy", np.array(LABELS))
    np.save("large.npy", np.array(LABELS) + 1)
    np.save("less.npy", np.array(LABELS) - 1)
    (tmp_path / "labels.txt").write_text("\n".join(map(str, LABELS)))
    (tmp_path / "few.txt").write_text("0 1 2")
    (tmp_path / "words.txt").write_text("cat dog")
    np.save("floats.npy", np.array([0.5]))


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("labels", ["labels.npy", "labels.txt"])
def test_top1(invoke, artifact, labels):
    code, out, _ = invoke("evaluate", artifact, "--data", "x.npy", "--labels", labels)
    assert code == 0
    cells = [line.split() for line in out.splitlines()]
    assert ["top-1", "0.8000", "0.3755", "to", "0.9638", "-", "-"] in cells
    assert ["images", "5"] in cells


@pytest.mark.usefixtures("files")
def test_json_in_place_of_the_table(invoke, artifact):
    arguments = ("--data", "x.npy", "--labels", "labels.npy", "--json")
    code, out, err = invoke("evaluate", artifact, *arguments)
    assert code == 0, err
    assert Evaluation.from_json(out) == Evaluation(samples=5, top1=0.8, digest="0" * 64)


@pytest.mark.usefixtures("files")
def test_the_numbers_go_to_a_file_for_the_report(invoke, artifact):
    arguments = ("--data", "x.npy", "--labels", "labels.npy", "--report", "e.json")
    code, _, err = invoke("evaluate", artifact, *arguments)
    assert code == 0, err
    assert read_evaluation("e.json") == Evaluation(samples=5, top1=0.8, digest="0" * 64)
    assert Evaluation.from_json(Evaluation(samples=1, snr_db=float("inf")).to_json()).snr_db > 1e9


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("demand", "code"), [(0.8, 0), (0.81, 3)])
def test_demand(invoke, artifact, demand, code):
    found, _, err = invoke(
        "evaluate", artifact, "--data", "x.npy", "--labels", "labels.npy", "--min-top1", demand
    )
    assert found == code
    assert err == ("not reached: top-1 is 0.8000, at least 0.81 was demanded\n" if code else "")


def float_model(output):
    """Write a network of the artifact's shapes that gives its scores, and 1 more, as ``output``."""
    node = helper.make_node("Add", ["x", "one"], [output])
    one = {"one": np.ones((1, 3), "float32")}
    save(model([node], {"x": [2, 3]}, {output: [2, 3]}, one), "float.onnx")


@pytest.mark.usefixtures("files")
def test_another_network_is_no_reference(invoke, artifact):
    float_model("logits")
    arguments = ("--data", "x.npy", "--labels", "labels.npy", "--fp32", "float.onnx")
    code, _, err = invoke("evaluate", artifact, *arguments)
    assert code == 1
    assert "the FP32 network has no output 'scores', it has logits" in err


@pytest.mark.usefixtures("files")
def test_nor_is_one_of_another_shape(invoke, artifact):
    one = {"one": np.ones((1, 4), "float32")}
    node = helper.make_node("Add", ["x", "one"], ["scores"])
    save(model([node], {"x": [2, 4]}, {"scores": [2, 4]}, one), "float.onnx")
    code, _, err = invoke("evaluate", artifact, "--data", "x.npy", "--fp32", "float.onnx")
    assert code == 1
    assert "float.onnx does not take the inputs of" in err
    assert "x=2,3: the file has [2, 4]" in err


@pytest.mark.usefixtures("files")
def test_sizes_that_the_file_leaves_open_are_the_artifact_s(invoke, artifact):
    one = {"one": np.ones((1, 1), "float32")}
    node = helper.make_node("Add", ["x", "one"], ["scores"])
    save(model([node], {"x": ["n", "tokens"]}, {"scores": None}, one), "float.onnx")
    code, out, err = invoke("evaluate", artifact, "--data", "x.npy", "--fp32", "float.onnx")
    assert code == 0, err
    assert "SNR against FP32" in out


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("share", ["80", "-0.1"])
def test_a_demanded_share_is_no_percentage(invoke, artifact, share):
    arguments = ("--data", "x.npy", "--labels", "labels.npy", "--min-top1", share)
    code, _, err = invoke("evaluate", artifact, *arguments)
    assert code == 2
    assert "--min-top1" in err


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("demand", "code"), [(0, 0), (-50, 3)])
def test_demand_beside_fp32(invoke, artifact, demand, code):
    float_model("scores")
    found, out, err = invoke(
        "evaluate", artifact, "--data", "x.npy", "--labels", "labels.npy", "--fp32",
        "float.onnx", "--max-drop", demand,
    )  # fmt: skip
    assert found == code, err
    assert "same class as FP32" in out
    unmet = "not reached: top-1 is 0.00 points below FP32, at most -50.0 were allowed\n"
    assert err == (unmet if code else "")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "none.npy", "--labels", "labels.npy"], "no such file"),
        (["--data", "x.npy", "--labels", "none.npy"], "cannot be read as labels"),
        (["--data", "x.npy", "--labels", "words.txt"], "cannot be read as labels"),
        (["--data", "x.npy", "--labels", "floats.npy"], "labels are float64, integers expected"),
        (["--data", "x.npy", "--labels", "few.txt"], "5 images, but labels of shape (3,)"),
        (["--data", "x.npy", "--labels", "labels.npy", "--output", "q"], "no output is called 'q'"),
        (
            ["--data", "x.npy", "--labels", "large.npy"],
            "label 3 found, but the output has 3 values",
        ),
        (["--data", "x.npy", "--labels", "less.npy"], "label -1 found"),
        (["--data", "x.npy", "--labels", "labels.npy", "--report", "x.npy"], "written over"),
        (["--data", "x.npy", "--labels", "labels.npy", "--report", "."], "it is a folder"),
        (["--data", "x.npy", "--labels", "labels.npy", "--report", "no/e.json"], "no folder no"),
        (
            ["--data", "x.npy", "--labels", "labels.npy", "--preprocess", "zoom"],
            "'zoom' is none of",
        ),
    ],
)
def test_errors_are_messages(invoke, artifact, arguments, message):
    code, _, err = invoke("evaluate", artifact, *arguments)
    assert code == 1
    assert message in err
    np.testing.assert_array_equal(np.load("x.npy"), X)
