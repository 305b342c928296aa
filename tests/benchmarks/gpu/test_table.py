import dataclasses

import pytest

from benchmarks.gpu.peaks import Peaks
from benchmarks.gpu.roofline import layer
from benchmarks.gpu.table import clocks, markdown, summary
from tests.benchmarks.gpu.measurements import KERNELS, PEAKS, cell

pytestmark = pytest.mark.fast
TIMES = {"relay-int8": (2.0, 1.0, 4.0), "torch-fp16-graph": (6.0, 4.0, 4.0)}


def test_what_bounds_a_kernel():
    quantize, dp4a, mma = cell(TIMES).layers
    assert (quantize.bound, quantize.peak, quantize.share) == ("launch", None, 0.5)
    assert (dp4a.bound, dp4a.peak, dp4a.share) == ("compute", 0.5, 0.5)
    assert (mma.bound, mma.share) == ("launch", pytest.approx(0.4))
    assert mma.peak == pytest.approx(0.2)
    large = dataclasses.replace(KERNELS[0], moved_bytes=400_000_000)
    assert layer(large, 2e-4, PEAKS).bound == "memory"
    assert layer(large, 2e-4, PEAKS).share == pytest.approx(0.5)
    unknown = layer(KERNELS[1], 2e-4, Peaks())
    assert (unknown.bound, unknown.peak, unknown.share) == ("", None, None)


def test_ratios_are_of_the_rounds():
    found = cell(TIMES)
    assert found.median_s("relay-int8") == 2e-3
    assert found.ratio("torch-fp16-graph") == 3.0
    assert found.ratio("tensorrt-int8") is None
    assert found.share_of_peak("relay-int8") == pytest.approx(1.2e9 / 2e-3 / 600e12)


def test_tables():
    right = cell(TIMES, checked=3, failures={"tensorrt-int8": "not installed: tensorrt"})
    wrong = cell({"relay-int8": (1.0,)}, batch=1, wrong={"relay-int8": "7 of 9 logits differ"})
    text = markdown([right, wrong], {"device": "Stub GPU"}, PEAKS, Peaks())
    rows = [[part.strip() for part in line.strip("|").split("|")] for line in text.splitlines()]
    assert ["net", "4", "2.000", "4.000", "0.00", "4.000", "8.000", "3.00"] in rows
    assert ["net", "1", "1.000", "2.000", "0.00", "-", "-", "-"] in rows
    assert [
        "a",
        "conv `conv2d_dp4a_1`",
        "20.0",
        "69.0%",
        "30000",
        "0.50",
        "0",
        "compute",
        "0.50",
    ] in rows
    assert ["dp4a, TMAC/s", "60.00", "-"] in rows
    assert "- launch: 2 kernels, 0.009 ms, 31%" in text
    assert "- **WRONG** net, batch 1, relay-int8: 7 of 9 logits differ" in text
    assert "- net, batch 4: logits bit for bit as computed at the build; 3 tensors as" in text
    assert "- net, batch 4, TensorRT int8: not installed: tensorrt" in text
    assert "- device: Stub GPU" in text
    assert summary(wrong).startswith("net, batch 1: WRONG; int8 here 1.000 ms")
    assert clocks([right]) == "1900 to 1900 MHz"
