"""What a notebook shows of each object: a line, and for reports a table."""

import pytest

import relay_int8
from relay_int8.demo import MODEL, load_images
from relay_int8.report.contents import LayerReport, OutputReport, Report


def test_names_are_completed():
    assert set(relay_int8.__all__) <= set(dir(relay_int8))


@pytest.mark.fast
def test_reports():
    layers = (
        LayerReport(name="conv<1>", kind="conv2d", integer=True, snr_db=float("inf")),
        LayerReport(name="softmax", kind="softmax", integer=False, reason="it has no integers"),
    )
    outputs = (OutputReport(name="y", snr_db=32.41, max_error=0.1),)
    report = Report(
        model="net.onnx", digest="ab", layers=layers, outputs=outputs, latency_ms={"int8": 1.5}
    )
    assert repr(report) == (
        "<Report of net.onnx: 1 of 2 layers in integers, y 32.4 dB, int8 1.500 ms>"
    )
    page = report._repr_html_()
    assert "conv&lt;1&gt;" in page and "float: it has no integers" in page and "exact" in page


def test_each_stage_is_a_line(tmp_path):
    model = relay_int8.load_model(MODEL, relay_int8.ImportOptions(batch=1))
    quantized = relay_int8.quantize(model, load_images().calibration[:4])
    artifact = relay_int8.build(quantized)
    artifact.save(tmp_path / "digits.ri8")
    network = relay_int8.load(tmp_path / "digits.ri8")
    digest = quantized.digest[:12]
    layers = len(quantized.network.plan.layers)
    config = quantized.network.config
    how = f"{config.preset}, {config.method}"
    told = f"<QuantizedModel {digest}: {layers} of {layers} layers in integers ({how})>"
    assert repr(quantized.network) == told
    assert repr(quantized) == f"<Quantized digits_resnet.onnx: {told}>"
    assert repr(artifact).startswith("<Artifact of digits_resnet.onnx for ")
    assert repr(network).startswith(
        "<Module digits.ri8: image float32 1 x 1 x 8 x 8 -> logits float32 1 x 10; "
    )
