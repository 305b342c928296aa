"""relay-int8 export-qdq and quantize --qdq: from images, and from a TensorRT cache."""

import json

import numpy as np
import onnx
import pytest

from relay_int8.demo import MODEL, load_images
from tests.onnx_models import run_onnx


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    images = load_images()
    path = tmp_path_factory.mktemp("images") / "calibration.npy"
    np.save(path, images.calibration[:60])
    return images, path


def accuracy(model, digits) -> float:
    logits = run_onnx(model, digits.test[:400])[0]
    return float(np.mean(logits.argmax(1) == digits.labels[:400]))


def test_an_exported_file_is_as_accurate_as_the_model(invoke, digits, tmp_path):
    images, data = digits
    code, out, err = invoke(
        "export-qdq", MODEL, "--open-batch", "--data", data, "-o", tmp_path / "qdq.onnx"
    )
    assert code == 0, err
    assert "layers in integers" in out
    model = onnx.load(tmp_path / "qdq.onnx")
    assert [value.name for value in model.graph.output] == ["logits"]
    assert abs(accuracy(model, images) - accuracy(onnx.load(MODEL), images)) <= 0.01


def test_a_tensorrt_cache_becomes_explicit_quantization(invoke, digits, tmp_path):
    images, data = digits
    code, _, err = invoke(
        "quantize", MODEL, "--batch", 1, "--data", data, "--preset", "int8-symmetric", "--samples",
        0, "-o", tmp_path / "a.ri8", "--save-table", tmp_path / "table.json", "--qdq",
        tmp_path / "direct.onnx", "--no-bias-correction",
    )  # fmt: skip
    assert code == 0, err
    code, _, err = invoke("table", "convert", tmp_path / "table.json", tmp_path / "calib.cache",
                          "--to", "tensorrt")  # fmt: skip
    assert code == 0, err
    code, _, err = invoke(
        "export-qdq", MODEL, "--batch", 1, "--table", tmp_path / "calib.cache", "--preset",
        "int8-symmetric", "--bias", "float", "--no-bias-correction", "-o", tmp_path / "trt.onnx",
    )  # fmt: skip
    assert code == 0, err
    direct, cached = (onnx.load(tmp_path / name) for name in ("direct.onnx", "trt.onnx"))
    types = {item.data_type for item in cached.graph.initializer}
    assert onnx.TensorProto.INT8 in types
    assert not {onnx.TensorProto.UINT8, onnx.TensorProto.INT32} & types
    scales = [
        {item.name: item.float_data or item.raw_data for item in model.graph.initializer
         if item.name.endswith(":q:scale")}
        for model in (direct, cached)
    ]  # fmt: skip
    assert scales[0] == scales[1]
    document = json.loads((tmp_path / "table.json").read_text())
    assert len(scales[0]) >= len(document["tensors"])
    x = images.test[:1]
    np.testing.assert_allclose(run_onnx(cached, x)[0], run_onnx(direct, x)[0], atol=0.2)


def test_data_or_a_table_is_needed(invoke, tmp_path):
    assert invoke("export-qdq", MODEL, "-o", tmp_path / "x.onnx")[0] == 2
