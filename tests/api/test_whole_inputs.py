"""Networks whose inputs have no batch: recurrent layers by steps, nodes of a graph, sizes."""

import numpy as np
import onnx
import pytest
from onnx import helper

import relay_int8
from relay_int8.errors import CalibrationError, UnsupportedOpError
from relay_int8.graph.batch import has_batch, with_batch
from tests.onnx_models import model

RNG = np.random.default_rng(0)
node = helper.make_node


def weights(*dims: int) -> np.ndarray:
    return (RNG.normal(size=dims) / np.sqrt(dims[-1])).astype("float32")


def by_steps() -> onnx.ModelProto:
    """Return a recurrent layer whose sequence is the first axis, and a dense layer behind it."""
    nodes = [
        node("RNN", ["x", "w", "r"], ["", "last"], hidden_size=8),
        node("Squeeze", ["last", "first"], ["h"]),
        node("MatMul", ["h", "out"], ["y"]),
    ]
    values = {"w": weights(1, 8, 8), "r": weights(1, 8, 8), "out": weights(8, 4)}
    return model(nodes, {"x": [3, 1, 8]}, {"y": None}, {**values, "first": np.array([0])})


def of_nodes() -> onnx.ModelProto:
    """Return two layers on a graph: each mixes the nodes, which are the first axis."""
    nodes = [
        node("MatMul", ["x", "w"], ["h"]),
        node("MatMul", ["edges", "h"], ["m"]),
        node("Relu", ["m"], ["a"]),
        node("MatMul", ["a", "v"], ["p"]),
        node("Mul", ["p", "scale"], ["y"]),
    ]
    inputs = {"x": [6, 8], "edges": [6, 6], "scale": []}
    return model(nodes, inputs, {"y": None}, {"w": weights(8, 16), "v": weights(16, 4)})


def loaded(proto: onnx.ModelProto, tmp_path) -> relay_int8.Model:
    onnx.save(proto, tmp_path / "net.onnx")
    return relay_int8.load_model(tmp_path / "net.onnx")


def images(net: relay_int8.Model, count: int) -> list[dict[str, np.ndarray]]:
    return [
        {i.name: np.asarray(RNG.normal(size=i.shape), "float32") for i in net.inputs}
        for _ in range(count)
    ]


@pytest.mark.parametrize("build", [by_steps, of_nodes])
def test_inputs_are_taken_as_a_whole(build, tmp_path):
    net = loaded(build(), tmp_path)
    assert not has_batch(net.module)
    artifact = relay_int8.build(relay_int8.quantize(net, images(net, 4)))
    assert artifact.report.coverage["float_macs"] == 0
    artifact.save(tmp_path / "net.ri8")
    run, exact = relay_int8.load(tmp_path / "net.ri8"), relay_int8.float_network(net)
    for image in images(net, 2):
        found, wanted = run.run(image)["y"], exact(image)["y"]
        assert np.abs(found - wanted).max() < 0.1 * np.abs(wanted).max()


@pytest.mark.fast
def test_runs_behind_one_another(tmp_path):
    """Of a file with an array for each input, as many rows belong to a run as the input has."""
    net = loaded(of_nodes(), tmp_path)
    given = images(net, 3)
    stacked = {n: np.concatenate([i[n] for i in given]) for n in ("x", "edges")}
    stacked["scale"] = given[0]["scale"]
    found = list(relay_int8.calibration.open_data(stacked, net.inputs, whole=True))
    assert [image["x"].shape for image in found] == [(6, 8)] * 3
    np.testing.assert_array_equal(found[2]["edges"], given[2]["edges"])
    with pytest.raises(CalibrationError, match=r"'x': shape 7 x 8 found, 6 x 8 expected.*no batch"):
        relay_int8.quantize(net, [{**given[0], "x": np.zeros((7, 8), "float32")}])


@pytest.mark.fast
def test_another_batch_is_refused(tmp_path):
    nodes = [node("Add", ["x", "sizes"], ["y"])]
    net = loaded(model(nodes, {"x": [1, 2], "sizes": [2]}, {"y": None}), tmp_path)
    assert not has_batch(net.module)
    with pytest.raises(UnsupportedOpError, match=r"no batch in common: .*'sizes': \[2\]"):
        with_batch(net.module, 4)
