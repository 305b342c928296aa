"""report.json holds what the summary prints; both say which layers stayed in float, and why."""

import dataclasses
import io
import json

import pytest
from rich.console import Console

from relay_int8.cli.summary import print_summary
from relay_int8.cli.terminal import terminal
from relay_int8.errors import RecordError
from relay_int8.report.assembly import _repeats
from relay_int8.report.contents import INT16_SATURATION, Hazard, LayerReport, OutputReport, Report
from relay_int8.report.hazards import hazards_here
from relay_int8.report.reasons import kind_of
from relay_int8.report.wording import decibels

pytestmark = pytest.mark.fast

REPORT = Report(
    model="net.onnx",
    digest="ab" * 32,
    settings={"preset": "int8", "exclude": ("fc",)},
    layers=(
        LayerReport(
            name="conv1",
            kind="conv2d",
            macs=3_000_000,
            integer=True,
            kernel="conv2d_plain",
            snr_db=31.25,
            saturation=0.001,
            time_us=12.4,
        ),
        LayerReport(name="pool", kind="max_pool2d", integer=True, snr_db=float("inf")),
        LayerReport(
            name="fc", kind="dense", macs=1_000_000, integer=False, reason="excluded by name"
        ),
        LayerReport(
            name="prob", kind="softmax", integer=False, reason="softmax has no integer form"
        ),
    ),
    outputs=(OutputReport(name="prob", snr_db=28.0, max_error=0.0125),),
    repacks=("pool",),
    samples=16,
    model_bytes=4_000_000,
    artifact_bytes=1_100_000,
    latency_ms={"int8": 1.5},
    machine={"cpu": "some", "threads": 2},
    seconds={"calibrate": 3.0},
)


def printed(report, **options):
    paper = io.StringIO()
    print_summary(report, Console(file=paper, width=160, highlight=False), **options)
    return paper.getvalue()


def test_coverage_counts_layers_and_macs():
    assert REPORT.coverage == {
        "int8_layers": 2,
        "float_layers": 2,
        "int8_macs": 3_000_000,
        "float_macs": 1_000_000,
        "reasons": {"excluded by name": 1, "softmax has no integer form": 1},
    }


def test_json_comes_back(tmp_path):
    REPORT.save(tmp_path / "report.json")
    text = (tmp_path / "report.json").read_text()
    assert json.loads(text)["coverage"] == REPORT.coverage
    assert json.loads(text)["layers"][1]["snr_db"] == "inf"
    again = Report.from_json(text)
    assert again.layers == REPORT.layers
    assert again.outputs == REPORT.outputs
    assert again.to_json() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a report"),
        (
            "[]",
            "not a report of relay-int8: it has no report_version; relay-int8 quantize --report",
        ),
        ("{}", "it has no report_version"),
        ('{"report_version": 1}', "it lacks model, digest; relay-int8 quantize"),
        ('{"report_version": 1, "layers": 3}', "layers is no list"),
        (
            '{"report_version": 1, "layers": [3]}',
            r"layers\[0\] is a int, an object with fields exp",
        ),
        ('{"report_version": 1, "hazards": [{}]}', r"hazards\[0\] lacks "),
        ('{"coverage": {}, "report_version": 99}', "report version 99, 1 expected"),
        (
            '{"coverage": {}, "report_version": 1, "layers": [{"snr_db": 1}], "outputs": []}',
            "not a report",
        ),
    ],
)
def test_foreign_json(text, message):
    with pytest.raises(RecordError, match=message):
        Report.from_json(text)


def test_no_folder(tmp_path):
    with pytest.raises(RecordError, match="cannot be written"):
        REPORT.save(tmp_path / "none" / "report.json")


def test_summary_names_layers_kernels_and_reasons():
    text = printed(REPORT)
    assert "2 of 4, 75.00% of the MACs" in text
    for part in (
        "conv2d_plain",
        "31.2",
        "0.100%",
        "exact",
        "excluded by name",
        "SNR 28.0 dB",
        "1.10 MB (model file 4.00 MB)",
        "1.500 ms",
        "1: pool",
    ):
        assert part in text, part


def test_summary_without_layers_still_says_why():
    text = printed(REPORT, layers=False)
    assert "conv2d_plain" not in text
    assert "softmax has no integer form" in text


def test_reasons_are_printed_by_kind_with_the_first_names():
    layers = tuple(
        LayerReport(
            name=f"norm_{i}",
            kind="mul",
            integer=False,
            reason=f"its input a b_{i} is computed in float",
        )
        for i in range(200)
    )
    once = LayerReport(
        name="s", kind="softmax", integer=False, reason="softmax has no integer form"
    )
    report = dataclasses.replace(REPORT, layers=(once, *layers))
    assert report.coverage["reasons"] == {
        "its input is computed in float": 200,
        "softmax has no integer form": 1,
    }
    text = printed(report, layers=False)
    (line,) = [line for line in text.splitlines() if "in float" in line and "input" in line]
    assert line.split(None, 1)[0] == "200"
    assert line.rstrip().endswith("norm_0, norm_1, norm_2 and 197 more")


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("its input x is computed in float is not quantized", "its input is not quantized"),
        (
            "its input x is quantized to int16; integers of 8 bits are read",
            "its input is quantized to int16, not 8 bits",
        ),
        ("input ids is int64, not float32", "its input is int64, not float32"),
        ("it broadcasts (1, 2) and (2, 1) both ways", "it broadcasts both operands"),
        ("a constant of (3, 2) broadcasts its input of (2,)", "a constant broadcasts its input"),
        (
            "accumulator of channel 3 may reach 2147489400, int32 ends at 2147483647",
            "its accumulator may leave int32",
        ),
        ("excluded by the user", "excluded by the user"),
    ],
)
def test_kinds_of_reasons_name_no_tensor(reason, kind):
    assert kind_of(reason) == kind


def test_brackets_in_names_are_no_markup(capsys):
    layers = (LayerReport(name="x[0]", kind="[bold]", integer=False, reason="axis [1] :smile:"),)
    print_summary(Report(model="m[a]", digest="0" * 64, layers=layers), terminal())
    text = capsys.readouterr().out
    assert all(part in text for part in ("x[0]", "[bold]", "axis [1] :smile:", "m[a] (0000"))


def test_a_pipe_gets_no_rules_nor_colour():
    text = printed(REPORT)
    assert not set(text) & set("\x1b│┃━─┏")


def test_a_network_without_layers_prints():
    assert "0 of 0" in printed(Report(model="empty", digest="0" * 64))


@pytest.mark.parametrize(
    ("ratio", "text"), [(None, "-"), (float("inf"), "exact"), (0.04, "0.0"), (-3.16, "-3.2")]
)
def test_decibels(ratio, text):
    assert decibels(ratio) == text


def test_what_other_runtimes_may_do_is_left_out_where_the_network_stays_here():
    here, there = (
        Hazard(kind=kind, name="", message=kind) for kind in ("few-images", INT16_SATURATION)
    )
    assert hazards_here((here, there)) == (here,)
    assert INT16_SATURATION in printed(dataclasses.replace(REPORT, hazards=(here, there)))
    assert "Hazards" not in printed(REPORT)


@pytest.mark.parametrize(("run_ms", "repeats"), [(0, 20), (10, 20), (100, 10), (3000, 5)])
def test_large_networks_are_timed_for_a_second(run_ms, repeats):
    assert _repeats(run_ms) == repeats


@pytest.mark.parametrize("field", ["model", "settings", "seconds", "other_us", "model_bytes"])
@pytest.mark.parametrize("value", [None, ["x"], 1.5])
def test_a_report_with_fields_of_other_types_is_none(field, value):
    report = Report(model="m", digest="", settings={}, layers=())
    assert Report.from_json(report.to_json()) == report
    document = json.loads(report.to_json()) | {field: value}
    with pytest.raises(RecordError, match=f"not a report of relay-int8: {field} is "):
        Report.from_json(json.dumps(document))
