import pytest

from tests.benchmarks.measurements import cell

pytestmark = pytest.mark.fast


def test_ratio_is_taken_within_rounds():
    # The machine was ten times slower in the second round, for both.
    found = cell({"relay-int8-latency": [1, 10, 1], "onnxruntime-latency": [2, 20, 2]})
    assert found.ratio("onnxruntime-latency", "relay-int8-latency") == 2.0
    assert found.median_s("onnxruntime-latency") == 2e-3


def test_ratio_of_what_took_no_part():
    assert cell({"relay-int8-latency": [1]}).ratio(None, "relay-int8-latency") is None
    assert cell({"onnxruntime-latency": [1]}).ratio("onnxruntime-latency", None) is None


def test_fastest_of_a_family_is_that_of_least_median_for_the_goal():
    found = cell(
        {
            "openvino-nncf-latency": [5, 1, 5],
            "openvino-qdq-latency": [4, 4, 4],
            "openvino-qdq-throughput": [3, 9, 3],
        }
    )
    assert found.fastest("OpenVINO", "throughput") == "openvino-qdq-throughput"
    assert found.fastest("OpenVINO", "latency") == "openvino-qdq-latency"
    assert found.fastest("ONNX Runtime", "latency") is None


@pytest.mark.parametrize(
    ("batch", "threads", "share"), [(1, 1, 0.5), (4, 1, 2.0), (1, 2, 0.25), (4, 2, 1.0)]
)
def test_share_of_peak(batch, threads, share):
    # A million multiplications in 2 ms, of a billion a second.
    found = cell({"relay-int8-latency": [2]}, batch=batch, threads=threads)
    assert found.share_of_peak("relay-int8-latency") == pytest.approx(share)


def test_no_peak_no_share():
    assert (
        cell({"relay-int8-latency": [2]}, peak_macs_s=None).share_of_peak("relay-int8-latency")
        is None
    )


def test_clock_and_share_of_the_core():
    times = {"relay-int8-latency": [2]}
    assert cell(times, clock="cpu").median_s("relay-int8-latency") == 1e-3
    assert cell(times).core_share == pytest.approx(0.5)
    assert cell({}).core_share == 0.0
