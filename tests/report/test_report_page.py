"""The page of a report: every layer, tensor and number is in it, and nothing is fetched."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from relay_int8.calibration import METHODS, Histogram, Range
from relay_int8.calibration.choose import choose
from relay_int8.calibration.table import CalibrationTable
from relay_int8.errors import ConfigError, RecordError
from relay_int8.report.accuracy import Evaluation
from relay_int8.report.contents import Hazard, LayerReport
from relay_int8.report.html_page import is_page, write_report_page
from relay_int8.report.sensitivity_file import with_ratios
from tests.pages import Reader, drawn
from tests.report.test_report import REPORT

pytestmark = pytest.mark.fast

SCHEMES = {"image": "u8", "a/conv<1>&x:0": "s8", "gelu": "asymmetric"}


def entry(scheme, keep=True):
    values = np.random.default_rng(3).laplace(size=5000).astype(np.float32)
    values = np.maximum(values, {"u8": 0, "s8": -9, "asymmetric": -1}[scheme]).astype(np.float32)
    method, seen = METHODS["kl-tensorrt"], Range(values.min(), values.max(), 30)
    counted = Histogram.of(values, method.grid(scheme, seen))
    return choose(scheme, seen, counted, method, keep_histogram=keep)


TABLE = CalibrationTable(
    entries={name: entry(scheme) for name, scheme in SCHEMES.items()}, images=30, notes=("few",)
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    pytest.importorskip("plotly")
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report_page(REPORT, TABLE, path)
    return path


@pytest.fixture(scope="module")
def page(path):
    return Reader(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def choices(path):
    found = re.findall(r'class="choices">(.*?)</script>', path.read_text(encoding="utf-8"))
    assert len(found) == 1
    return json.loads(found[0])


def test_it_is_whole_and_fetches_nothing(page):
    page.require_whole()


def test_every_layer_is_there_with_its_numbers(page):
    rows = page.rows("place")
    assert [row["layer"] for row in rows] == [layer.name for layer in REPORT.layers]
    first, pool, fc, _ = rows
    assert (first["MMAC"], first["SNR dB"], first["time us"]) == ("3.000", "31.2", "12.4")
    assert (first["saturated %"], first["kernel"]) == ("0.1000", "conv2d_plain")
    assert (pool["SNR dB"], pool["saturated %"], pool["type"]) == ("exact", "-", "int8")
    assert (fc["type"], fc["reason"]) == ("float", "excluded by name")


def test_every_tensor_is_there_with_its_range(page):
    rows = page.rows("tensor")
    assert [row["tensor"] for row in rows] == list(TABLE.entries)
    for row, one in zip(rows, TABLE.entries.values(), strict=True):
        assert row["scheme"] == one.scheme
        assert row["high"] == f"{one.high:.6g}"
        assert row["scale"] == f"{one.qparams().scale:.6g}"
        assert row["method"] == "kl-tensorrt"


def test_methods_are_side_by_side(page):
    ratios, highs = (page.rows("tensor", "chosen", place=place) for place in (0, 1))
    assert "mse" in highs[0]
    for row in ratios:
        rest = [
            float(row[name])
            for name in row
            if name not in ("tensor", "chosen") and row[name] != "-"
        ]
        assert row["chosen"] == row["kl-tensorrt"] and 5 < min(rest) < max(rest) < 50
    for row in highs:
        one = TABLE.entries[row["tensor"]]
        assert row["chosen"] == row["kl-tensorrt"] == f"{one.high:.6g}"
        expected = max(abs(one.observed.low), one.observed.high)
        assert row["max"] == f"{one.observed.high if one.scheme != 's8' else expected:.6g}"
        assert (row["mse"] == "-") == (one.scheme == "asymmetric")


def test_means_of_methods_are_over_the_same_tensors(page):
    ratios = page.rows("tensor", "chosen")
    for row in page.rows("method", "mean SNR dB"):
        both = [line for line in ratios if line[row["method"]] != "-"]
        assert row["tensors"] == f"{len(both)} of {len(ratios)}"
        mean, chosen = (
            np.mean([float(line[name]) for line in both]) for name in (row["method"], "chosen")
        )
        assert float(row["mean SNR dB"]) == pytest.approx(mean, abs=0.06)
        assert float(row["chosen, these tensors"]) == pytest.approx(chosen, abs=0.06)


def test_figures_hold_all_counts_and_the_chosen_range(choices):
    assert len(choices["traces"]) == len(TABLE.entries)
    for (bars, chosen, *others), one in zip(
        (histogram for histogram, *_ in choices["traces"]), TABLE.entries.values(), strict=True
    ):
        assert sum(bars["y"]) == one.histogram.total == 5000
        assert len(bars["x"]) == len(bars["y"]) == 256
        assert chosen["x"][-2] == pytest.approx(float(one.high), rel=1e-5)
        assert any(other["name"].startswith("percentile") for other in others)


def test_the_curve_is_least_at_the_chosen_threshold(choices):
    curves = dict(zip(TABLE.entries, (curve for *_, curve in choices["traces"]), strict=True))
    for name in ("image", "a/conv<1>&x:0"):
        curve = curves[name][0]
        least = curve["x"][int(np.argmin(curve["y"]))]
        assert least == pytest.approx(float(TABLE.entries[name].high), rel=1e-4)
    assert curves["gelu"][0]["x"] == []


def test_the_rest_of_the_report(page):
    for part in ("softmax has no integer form", "28.0 dB", "75.00%", "1.10 MB", "few", "3.0 s"):
        assert part in page.text, part


def test_the_verdict_comes_before_all_facts(page):
    verdict = page.text.index("1.500 ms (batch 1, 2 threads)")
    assert verdict < page.text.index("Quantized model")
    assert "conv1 (31.2 dB)" in page.text[: page.text.index("Quantized model")]


FITS = """
const result = {page: document.documentElement.scrollWidth, window: window.innerWidth};
"""


def test_a_phone_scrolls_in_one_direction(path):
    found = json.loads(drawn(path, FITS, width=420).result)
    assert found["page"] <= found["window"] < 700


def test_hazards_come_first(tmp_path):
    pytest.importorskip("plotly")
    hazard = Hazard(kind="few-images", name="", message="only 3 images")
    write_report_page(
        type(REPORT)(model="m", digest="0", hazards=(hazard,)), TABLE, tmp_path / "r.html"
    )
    found = Reader((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert found.rows("hazard") == [{"hazard": "few-images", "where": "", "what": "only 3 images"}]
    assert found.text.index("Hazards") < found.text.index("Layers\n")


def test_without_counts_it_says_so(tmp_path):
    pytest.importorskip("plotly")
    table = CalibrationTable(entries={"x": entry("s8", keep=False)}, images=30)
    write_report_page(REPORT, table, tmp_path / "r.html")
    found = Reader((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "holds no counts" in found.text
    assert [row["tensor"] for row in found.rows("tensor")] == ["x"]


def test_no_folder(tmp_path):
    pytest.importorskip("plotly")
    with pytest.raises(RecordError, match="cannot be written"):
        write_report_page(REPORT, TABLE, tmp_path / "none" / "r.html")


def test_the_name_says_what_is_written(monkeypatch):
    assert not is_page(None)
    assert not is_page("report.json")
    monkeypatch.setitem(__import__("sys").modules, "plotly.io", None)
    with pytest.raises(ConfigError, match=r"relay-int8\[pages\]"):
        is_page("report.HTML")


def test_after_quantizing_every_value_is_an_integer(choices):
    for (_, (bars,), _), one in zip(choices["traces"], TABLE.entries.values(), strict=True):
        params = one.qparams()
        assert sum(bars["y"]) == one.histogram.total
        assert bars["x"][-1] == params.qmax
        assert bars["x"][0] == (0 if one.histogram.grid.absolute else params.qmin)


def test_accuracy_with_its_interval(tmp_path):
    pytest.importorskip("plotly")
    found = Evaluation(samples=200, top1=0.59, reference_top1=0.6, agreement=0.95, snr_db=20.06)
    report = replace(REPORT, evaluation=found)
    write_report_page(report, TABLE, tmp_path / "r.html")
    rows = Reader((tmp_path / "r.html").read_text(encoding="utf-8")).rows("", "int8")
    assert rows[0] == {
        "": "top-1", "int8": "0.5900", "95 %": "0.5208 to 0.6558",
        "FP32": "0.6000", "FP32, 95 %": "0.5308 to 0.6654",
    }  # fmt: skip
    assert [row[""] for row in rows] == ["top-1", "same class as FP32", "signal to noise, dB"]
    assert rows[2]["int8"] == "20.1"


def test_sensitivity_stands_beside_each_layer(tmp_path):
    pytest.importorskip("plotly")
    report = with_ratios(REPORT, {"conv1": (40.0, float("inf"))})
    write_report_page(report, TABLE, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    first, *rest = Reader(text).rows("place")
    assert (first["alone dB"], first["without dB"]) == ("40.0", "exact")
    assert all((row["alone dB"], row["without dB"]) == ("-", "-") for row in rest)
    assert "outputs, it alone in integers" in text
    with pytest.raises(RecordError, match=r"of conv9 found, which are no layers of net\.onnx"):
        with_ratios(REPORT, {"conv9": (40.0, 41.0)})


BIG = 300
USE = """
const frame = document.querySelector(".sortable");
const rows = () => [...frame.querySelectorAll("tbody tr")].filter((row) => !row.hidden);
const names = () => rows().map((row) => row.cells[1].textContent);
const heads = [...frame.querySelectorAll("th")];
const head = (name) => heads.find((found) => found.textContent === name);
const search = frame.querySelector("input");
const type = (text) => { search.value = text; search.dispatchEvent(new Event("input")); };
const result = {all: names().length};
head("SNR dB").click();
result.least = names().slice(0, 3);
head("SNR dB").click();
result.most = names().slice(0, 2);
result.unknown = names().at(-1);
type("LAYER12 conv");
result.found = names();
type("");
const select = document.querySelector(".chooser select");
const plot = document.getElementById("histogram");
const before = plot.data[1].name;
select.selectedIndex = 1;
select.dispatchEvent(new Event("change"));
result.redrawn = [before, plot.data[1].name, document.getElementById("integers").data[0].x.length];
result.fits = document.body.scrollWidth <= window.innerWidth;
"""


def test_three_hundred_layers_in_a_browser(tmp_path):
    pytest.importorskip("plotly")
    layers = tuple(
        LayerReport(
            name=f"layer{place}", kind="conv2d" if place % 2 == 0 else "add", integer=True,
            snr_db=None if place == 7 else 10 + (place * 37 % BIG) / 10,
        )
        for place in range(BIG)
    )  # fmt: skip
    path = tmp_path / "big.html"
    write_report_page(replace(REPORT, layers=layers), TABLE, path)
    page = drawn(path, USE)
    found = json.loads(page.result)
    order = sorted((layer for layer in layers if layer.snr_db), key=lambda layer: layer.snr_db)
    names = [layer.name for layer in order]
    assert found["all"] == BIG
    assert found["least"] == names[:3]
    assert found["most"] == names[:-3:-1]
    assert found["unknown"] == "layer7"
    assert sorted(found["found"]) == sorted(
        layer.name for layer in layers if layer.kind == "conv2d" and "layer12" in layer.name
    )
    assert found["redrawn"][0] != found["redrawn"][1]
    assert found["redrawn"][2] == 128
    assert found["fits"]
    assert page.text.count("main-svg") >= 4


def test_a_browser_draws_it(path):
    assert drawn(path).text.count("main-svg") >= 4
