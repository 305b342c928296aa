import pytest

from tests.benchmarks.cells import cell

pytestmark = pytest.mark.fast


def test_ratio_is_taken_within_rounds():
    # The machine was ten times slower in the second round, for both.
    found = cell({"relay-int8": [1, 10, 1], "onnxruntime": [2, 20, 2]})
    assert found.ratio("onnxruntime") == 2.0
    assert found.median_s("onnxruntime") == 2e-3


def test_ratio_of_what_took_no_part():
    assert cell({"relay-int8": [1]}).ratio(None) is None
    assert cell({"onnxruntime": [1]}).ratio("onnxruntime") is None


def test_fastest_of_a_family_is_that_of_least_median():
    found = cell(
        {
            "openvino-nncf-latency": [5, 1, 5],
            "openvino-qdq-latency": [4, 4, 4],
            "openvino-qdq-throughput": [3, 9, 3],
        }
    )
    assert found.fastest("OpenVINO") == "openvino-qdq-throughput"
    assert found.fastest("OpenVINO", "latency") == "openvino-qdq-latency"
    assert found.fastest("ONNX Runtime") is None


@pytest.mark.parametrize(
    ("batch", "threads", "share"), [(1, 1, 0.5), (4, 1, 2.0), (1, 2, 0.25), (4, 2, 1.0)]
)
def test_share_of_peak(batch, threads, share):
    # A million multiplications in 2 ms, of a billion a second.
    found = cell({"relay-int8": [2]}, batch=batch, threads=threads)
    assert found.share_of_peak("relay-int8") == pytest.approx(share)


def test_no_peak_no_share():
    assert cell({"relay-int8": [2]}, peak_macs_s=None).share_of_peak("relay-int8") is None


def test_clock_and_share_of_the_core():
    times = {"relay-int8": [2]}
    assert cell(times, clock="cpu").median_s("relay-int8") == 1e-3
    assert cell(times).core_share == pytest.approx(0.5)
    assert cell({}).core_share == 0.0
