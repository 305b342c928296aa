"""relay-int8 report: a page of the JSON that quantize wrote."""

import pytest

from tests.analysis.test_report import REPORT
from tests.analysis.test_report_page import TABLE, Reader

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


@pytest.mark.parametrize(("name", "message"), [("t.json", "not a report"), ("none", "be read")])
def test_what_is_no_report(invoke, files, name, message):
    code, _, err = invoke("report", files / name, "-o", files / "r.html")
    assert code == 1
    assert message in err
    assert not (files / "r.html").exists()
