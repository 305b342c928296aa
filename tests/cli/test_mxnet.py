"""relay-int8 inspect, quantize and evaluate on a pair of MXNet files."""

import json

import numpy as np
import pytest

from tests.mxnet_models import MxnetModel


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mxnet")
    net = MxnetModel()
    y = net.conv(net.variable("data"), "conv", (8, 3, 3, 3), stride=(2, 2), pad=(1, 1))
    y = net.relu(net.batch_norm(y, "norm", 8), "relu")
    y = net.pool(y, "pool", 1, 1, kind="avg", global_pool=True)
    y = net.dense(y, "fc", (4, 8))
    net.save(folder, net.op("SoftmaxOutput", "softmax", y, net.variable("softmax_label")))
    rng = np.random.default_rng(0)
    np.save(folder / "images.npy", rng.normal(size=(8, 3, 9, 9)).astype("float32"))
    return folder


def test_quantize_then_evaluate(invoke, folder, tmp_path):
    symbol, images = folder / "net-symbol.json", folder / "images.npy"
    shape = ["--input", "data=1,3,9,9"]
    code, out, err = invoke("inspect", symbol, *shape, "--json")
    assert code == 0, err
    report = json.loads(out)
    files = (symbol, folder / "net-0000.params")
    assert report["model_bytes"] == sum(file.stat().st_size for file in files)
    layers = {layer["name"]: layer["integer"] for layer in report["layers"]}
    assert layers["relu"]
    assert not layers["softmax"]
    (folder / "net-0000.params").rename(tmp_path / "weights.params")
    files = [symbol, "--params", tmp_path / "weights.params", *shape]
    code, out, err = invoke(
        "quantize", *files, "--data", images, "--samples", 2, "-o", tmp_path / "net.ri8"
    )
    assert code == 0, err
    assert "100.00% of the MACs" in out
    fp32 = ["--fp32", symbol, "--params", tmp_path / "weights.params", *shape]
    code, out, err = invoke("evaluate", tmp_path / "net.ri8", "--data", images, *fp32)
    assert code == 0, err
    assert "same class as FP32" in out


@pytest.mark.fast
@pytest.mark.parametrize(
    "shape", ["data", "data=", "=1,3", "data=1,x", "data=0,3,9,9", "data==", "==1", "data==a"]
)
def test_shapes_that_are_none(invoke, folder, shape):
    code, _, err = invoke("inspect", folder / "net-symbol.json", "--input", shape)
    assert code == 2
    assert "expected a shape, NAME=1,3,224,224, or a value, NAME==16000" in " ".join(err.split())


@pytest.mark.fast
@pytest.mark.parametrize("second", ["data=2,3,8,8", "data==1"])
def test_an_input_is_given_once(invoke, folder, second):
    shapes = ("--input", "data=1,3,8,8", "--input", second)
    code, _, err = invoke("inspect", folder / "net-symbol.json", *shapes)
    assert code == 2
    assert "that input is given before; give it once" in " ".join(err.split())


@pytest.mark.fast
def test_values_are_of_onnx_models(invoke, folder):
    code, _, err = invoke("inspect", folder / "net-symbol.json", "--input", "data==0.5")
    assert code == 1
    assert "inputs of ONNX models can be given a value" in " ".join(err.split())


@pytest.mark.fast
def test_a_model_that_holds_its_weights(invoke, tmp_path):
    for name in ("m.tflite", "w.params"):
        (tmp_path / name).write_bytes(b"x")
    code, _, err = invoke("inspect", tmp_path / "m.tflite", "--params", tmp_path / "w.params")
    assert code == 1
    assert "holds its weights itself; leave --params out" in err
