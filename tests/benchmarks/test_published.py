"""Published networks: what is written of a package, and inputs that are drawn."""

import zipfile

import numpy as np
import onnx
import pytest
from onnx import helper

from benchmarks import drawn_inputs
from benchmarks.published import CALIBRATION, TEST, Published, write
from tests.onnx_models import model, run_onnx

pytestmark = pytest.mark.fast


def test_a_network_has_static_shapes_and_inputs_beside_it(tmp_path):
    nodes = [
        helper.make_node("Mul", ["x", "gain"], ["louder"]),
        helper.make_node("ReduceMean", ["louder"], ["y"], axes=[1], keepdims=0),
    ]
    proto = model(nodes, {"x": ("n", "samples"), "gain": ()}, {"y": None}, opset=13)
    with zipfile.ZipFile(tmp_path / "pack-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("pack/net.onnx", proto.SerializeToString())
    network = Published(
        package="pack==1.0",
        path="pack/net.onnx",
        inputs={"x": lambda rng: rng.normal(size=(1, 5))},
        values={"gain": 3.0},
    )
    write("net", network, tmp_path / "pack-1.0-py3-none-any.whl", tmp_path)
    written = onnx.load(tmp_path / "net.onnx")
    dims = [[d.dim_value for d in v.type.tensor_type.shape.dim] for v in written.graph.input]
    assert [value.name for value in written.graph.input] == ["x"] and dims == [[1, 5]]
    for part, count in (("calib", CALIBRATION), ("test", TEST)):
        x = np.load(tmp_path / f"net.{part}.npz")["x"]
        assert x.shape == (count, 5) and x.dtype == np.float32
    np.testing.assert_allclose(run_onnx(written, x[:1])[0], 3 * x[:1].mean(1), rtol=1e-5)


@pytest.mark.parametrize(
    ("draw", "shape", "low", "high"),
    [
        (lambda rng: drawn_inputs.page(rng, 48, 100, lines=1), (1, 3, 48, 100), -1, 1),
        (lambda rng: drawn_inputs.page(rng, 100, 80), (1, 3, 100, 80), -1, 1),
        (lambda rng: drawn_inputs.photograph(rng, 40, 60), (1, 3, 40, 60), 0, 255),
        (lambda rng: drawn_inputs.voice(rng, 4000), (4000,), -1, 1),
        (lambda rng: drawn_inputs.bands(rng, 20, 32), (20, 32), -14, 20),
        (lambda rng: drawn_inputs.file_bytes(rng, 300), (300,), 0, 255),
    ],
)
def test_inputs_differ_and_stay_in_their_range(draw, shape, low, high):
    rng = np.random.default_rng(0)
    one, other = draw(rng), draw(rng)
    assert one.shape == other.shape == shape and not np.array_equal(one, other)
    assert low <= min(one.min(), other.min()) and max(one.max(), other.max()) <= high
    assert one.std() > 0.01 * (high - low)
