import io

import pytest
from rich.console import Console

from benchmarks.table import COLUMNS, markdown, print_tables, sections, summary
from tests.benchmarks.measurements import cell

pytestmark = pytest.mark.fast

TIMES = {
    "relay-int8-latency": [2.0, 2.0],
    "relay-int8-throughput": [1.5, 1.5],
    "onnxruntime-latency": [4.0, 4.0],
    "openvino-nncf-latency": [3.0, 3.0],
    "openvino-fp32": [8.0, 8.0],
    "onnxruntime-fp32": [9.0, 9.0],
    "openvino-qdq-throughput": [1.0, 1.0],
}


def test_a_table_for_each_batch_number_of_threads_and_goal():
    cells = [cell(TIMES), cell(TIMES, threads=2), cell(TIMES, batch=16), cell(TIMES)]
    found = list(sections(cells))
    assert [section.title for section in found] == [
        f"{what}, {goal}"
        for what in ("batch 1, 1 thread", "batch 1, 2 threads", "batch 16, 1 thread")
        for goal in ("latency", "throughput")
    ]
    assert [len(section.rows) for section in found] == [3, 3, 2, 2, 2, 2]


def test_rows():
    latency, throughput = (
        dict(zip(COLUMNS, section.rows[0], strict=True)) for section in sections([cell(TIMES)])
    )
    assert latency == {
        "network": "net",
        "here ms": "2.00",
        "ORT ms": "4.00",
        "OV ms": "3.00",
        "OV with": "NNCF",
        "fp32 ms": "8.00",
        "ORT / here": "2.00",
        "OV / here": "1.50",
        "fp32 / here": "4.00",
        "peak here": "0.50",
        "peak ORT": "0.25",
        "peak OV": "0.33",
        "cosine": "0.5000",
        "dB here": "20.0",
        "dB NNCF": "20.0",
    }
    assert throughput == latency | {
        "here ms": "1.50",
        "ORT ms": "-",
        "OV ms": "1.00",
        "OV with": "QDQ",
        "fp32 ms": "-",
        "ORT / here": "-",
        "OV / here": "0.67",
        "fp32 / here": "-",
        "peak here": "0.67",
        "peak ORT": "-",
        "peak OV": "1.00",
        "dB NNCF": "-",
    }


def test_geometric_mean_of_ratios():
    slower = TIMES | {"onnxruntime-latency": [1.0, 1.0]}
    *_, means = next(iter(sections([cell(TIMES), cell(slower)]))).rows
    found = dict(zip(COLUMNS, means, strict=True))
    assert (found["ORT / here"], found["OV / here"]) == ("1.00", "1.50")
    assert found["here ms"] == ""


def test_who_took_no_part_is_said_once():
    absent = cell(
        {"relay-int8-latency": [2.0]},
        failures={"onnxruntime-latency": "no [kernel]"},
        peak_macs_s=None,
    )
    text = markdown([absent, absent], {"machine": "made up"})
    assert text.count("net, batch 1: ONNX Runtime latency took no part: no [kernel]") == 1
    assert "- machine: made up" in text
    assert "| net | 2.00 | - | - | - | - | - | - | - | - | - | - | 0.5000 | 20.0 | - |" in text


def test_terminal_and_markdown_show_the_same():
    stream = io.StringIO()
    cells = [cell(TIMES)]
    print_tables(cells, {}, Console(file=stream, width=200, markup=False))
    row = sections(cells).__next__().rows[0]
    assert all(value in stream.getvalue() for value in row)
    assert f"| {' | '.join(row)} |" in markdown(cells, {})


def test_summary_names_every_configuration():
    assert summary(cell({"relay-int8-latency": [2.0], "openvino-qdq-latency": [3.0]})) == (
        "net, batch 1, threads 1: relay-int8 latency 2.00 ms, OpenVINO QDQ latency 3.00 ms"
    )
