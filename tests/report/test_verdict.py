"""What a report comes to: each sentence says what was measured, on what, and nothing that was not."""

from dataclasses import replace

import pytest

from relay_int8.report.accuracy import Evaluation
from relay_int8.report.contents import INT16_SATURATION, Hazard, Report
from relay_int8.report.verdict import verdict
from tests.report.test_report import REPORT

pytestmark = pytest.mark.fast


def test_nothing_is_said_of_what_is_not_known():
    assert verdict(Report(model="m", digest="")) == {}


def test_speed_against_fp32():
    timed = replace(REPORT, latency_ms={"int8": 1.5, "float32": 4.5})
    assert verdict(timed)["Speed"] == (
        "1.500 ms (batch 1, 2 threads), 3.00 times as fast as FP32 by the same compiler (4.500 ms)"
    )
    assert verdict(REPORT)["Speed"] == (
        "1.500 ms (batch 1, 2 threads); FP32 was not timed beside it"
    )
    slow = replace(REPORT, latency_ms={"int8": 3.0, "float32": 1.5}, machine={})
    assert verdict(slow)["Speed"].startswith("3.000 ms, 0.50 times as fast as FP32")


def test_a_file_that_was_quantized_already_says_so():
    settings = {"scales": "of the model"}
    latency_ms = {"int8": 1.0, "float32": 2.0}
    sentence = verdict(replace(REPORT, settings=settings, latency_ms=latency_ms))["Speed"]
    assert "the file was quantized already" in sentence


def test_accuracy_names_its_images():
    assert verdict(REPORT)["Accuracy"] == "output prob: signal to noise 28.0 dB on 16 images"
    calibrated = replace(REPORT, settings={"calibration images": 200})
    assert verdict(calibrated)["Accuracy"] == (
        "output prob: signal to noise 28.0 dB on 16 calibration images; images that were held out "
        "say more (evaluate)"
    )
    found = Evaluation(samples=200, top1=0.59, reference_top1=0.6, agreement=0.95)
    assert verdict(replace(calibrated, evaluation=found))["Accuracy"] == (
        "top-1 0.5900 (FP32 0.6000), same class as FP32 0.9500 on 200 images; output prob: signal "
        "to noise 28.0 dB on 16 calibration images"
    )


def test_worst_layers_come_by_name_the_worst_first():
    layers = tuple(
        replace(REPORT.layers[0], name=name, snr_db=ratio)
        for name, ratio in (("a", 30.0), ("b", 12.0), ("c", None), ("d", 20.0), ("e", 25.0))
    )
    found = verdict(replace(REPORT, layers=layers))["Worst layers"]
    assert found == "b (12.0 dB), d (20.0 dB), e (25.0 dB)"


def test_floats_have_their_share_and_reasons():
    assert verdict(REPORT)["In float"] == (
        "2 of 4 layers, 25.00% of the multiplications (fc: excluded by name; prob: softmax has no "
        "integer form)"
    )
    assert verdict(replace(REPORT, layers=REPORT.layers[:2]))["In float"] == "none of 2 layers"


def test_hazards_are_counted_but_those_of_other_runtimes():
    kinds = ("constant", "constant", "few-images", INT16_SATURATION)
    hazards = tuple(Hazard(kind=kind, name="x", message="") for kind in kinds)
    found = verdict(replace(REPORT, hazards=hazards))["To look at"]
    assert found == "constant (2), few-images (1)"
