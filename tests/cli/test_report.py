"""relay-int8 report: a page of the JSON that quantize wrote."""

import dataclasses
import json

import pytest

from relay_int8.report.accuracy import Evaluation
from tests.report.test_report import REPORT
from tests.report.test_report_page import TABLE, Reader

pytestmark = pytest.mark.fast


@pytest.fixture
def files(tmp_path):
    pytest.importorskip("plotly")
    REPORT.save(tmp_path / "r.json")
    TABLE.save(tmp_path / "t.json")
    return tmp_path


def test_with_a_table(invoke, files):
    page = files / "r.html"
    code, out, err = invoke("report", files / "r.json", "--table", files / "t.json", "-o", page)
    assert code == 0, err
    assert "r.html" in out
    found = Reader(page.read_text(encoding="utf-8"))
    assert [row["layer"] for row in found.rows("place")] == ["conv1", "pool", "fc", "prob"]
    assert [row["tensor"] for row in found.rows("tensor")] == list(TABLE.entries)
    assert "Activations" in found.text


def test_without_a_table_there_are_no_ranges(invoke, files):
    page = files / "r.html"
    code, _, err = invoke("report", files / "r.json", "-o", page)
    assert code == 0, err
    found = Reader(page.read_text(encoding="utf-8"))
    assert [row["layer"] for row in found.rows("place")] == ["conv1", "pool", "fc", "prob"]
    assert "Ranges" not in found.text
    assert "Activations" not in found.text


def test_with_the_files_of_evaluate_and_sensitivity(invoke, files):
    page, evaluation, sensitivity = (files / name for name in ("r.html", "e.json", "s.json"))
    evaluation.write_text(Evaluation(samples=10, top1=0.5).to_json())
    fit = {"snr_db": 33.3, "agreement": 1.0}
    layer = {"name": "conv1", "kind": "conv2d", "macs": 1, "alone": fit, "without": fit}
    sensitivity.write_text(json.dumps({"whole": fit, "layers": [layer], "samples": 1}))
    options = ("--evaluation", evaluation, "--sensitivity", sensitivity, "-o", page)
    code, _, err = invoke("report", files / "r.json", *options)
    assert code == 0, err
    found = Reader(page.read_text(encoding="utf-8"))
    assert found.rows("place")[0]["alone dB"] == "33.3"
    assert found.rows("", "int8")[0]["95 %"] == "0.2366 to 0.7634"
    code, _, err = invoke("report", files / "r.json", "--evaluation", sensitivity, "-o", page)
    assert code == 1 and f"{sensitivity}: not an evaluation" in err
    code, _, err = invoke("report", files / "r.json", "--sensitivity", evaluation, "-o", page)
    assert code == 1 and "not what relay-int8 sensitivity wrote" in err


@pytest.mark.parametrize(("name", "message"), [("t.json", "not a report"), ("none", "be read")])
def test_what_is_no_report(invoke, files, name, message):
    code, _, err = invoke("report", files / name, "-o", files / "r.html")
    assert code == 1
    assert message in err
    assert f"error: {files / name}" in err
    assert not (files / "r.html").exists()


def test_files_of_another_model_are_refused(invoke, files):
    """What says nothing of its model, as older files, is taken."""
    mine, other = "ab" * 32, "cd" * 32
    hashes = {"digest": mine, "model_hash": mine, "table_hash": mine}
    dataclasses.replace(REPORT, **hashes).save(files / "r.json")
    fit = {"snr_db": 33.3, "agreement": 1.0}
    layer = {"name": "conv1", "kind": "conv2d", "macs": 1, "alone": fit, "without": fit}

    def write(model):
        dataclasses.replace(TABLE, model_hash=model).save(files / "t.json")
        (files / "e.json").write_text(Evaluation(samples=10, digest=model).to_json())
        document = {"whole": fit, "layers": [layer], "samples": 1, "model_hash": model}
        (files / "s.json").write_text(json.dumps(document))

    options = (("--table", "t.json"), ("--evaluation", "e.json"), ("--sensitivity", "s.json"))
    for option, name in options:
        for model in ("", mine, other):
            write(model)
            page = files / f"{name}{model[:2]}.html"
            code, _, err = invoke("report", files / "r.json", option, files / name, "-o", page)
            assert page.exists() == (model != other), err
            assert code == (model == other)
        assert f"{files / name}: made for model cdcdcdcdcdcd, this is abababababab" in err


def test_a_report_without_hashes_takes_any_table(invoke, files):
    document = json.loads((files / "r.json").read_text())
    del document["model_hash"], document["table_hash"]
    (files / "r.json").write_text(json.dumps(document))
    dataclasses.replace(TABLE, model_hash="cd" * 32).save(files / "t.json")
    options = ("--table", files / "t.json", "-o", files / "r.html")
    code, _, err = invoke("report", files / "r.json", *options)
    assert code == 0, err
