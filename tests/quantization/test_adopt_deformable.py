"""A quantized model with a deformable convolution: samples take the scale of the image they are of."""

import numpy as np
import onnx
import pytest
from onnx import helper

from relay_int8.compiler.build import compile_module
from relay_int8.frontend.onnx import import_onnx
from relay_int8.quantization.adopt import adopt
from schedules.targets import native_target
from tests.adopted_networks import with_oracle
from tests.onnx_models import model, run_onnx
from tests.quantized_networks import integers_of
from tests.run_built import run_built


def qdq(mask: str = "Sigmoid", quantized_weights: bool = True) -> onnx.ModelProto:
    """Return x -> Q/DQ -> DeformConv -> Q/DQ, offsets and mask computed of x."""
    rng = np.random.default_rng(0)
    node = helper.make_node
    weights = {
        "w_places": rng.integers(-127, 128, (27, 8, 3, 3)).astype("i1"),
        "s_places": np.full(27, 0.004, "f4"),
        "z_places": np.zeros(27, "i1"),
        "w": rng.integers(-127, 128, (6, 8, 3, 3)).astype("i1"),
        "s_w": rng.uniform(0.001, 0.003, 6).astype("f4"),
        "z_w": np.zeros(6, "i1"),
        "w_float": rng.normal(0, 0.1, (6, 8, 3, 3)).astype("f4"),
        "b": rng.normal(size=6).astype("f4"),
        "s_x": np.float32(0.03),
        "s_y": np.float32(0.05),
        "z_x": np.uint8(120),
        "z_y": np.uint8(131),
        "from": np.array([0], "i8"),
        "split": np.array([18], "i8"),
        "to": np.array([27], "i8"),
        "axis": np.array([1], "i8"),
    }
    nodes = [
        node("QuantizeLinear", ["x", "s_x", "z_x"], ["x_q"]),
        node("DequantizeLinear", ["x_q", "s_x", "z_x"], ["x_dq"]),
        node("DequantizeLinear", ["w_places", "s_places", "z_places"], ["w_places_dq"], axis=0),
        node("Conv", ["x_dq", "w_places_dq"], ["places"], pads=[1] * 4),
        node("Slice", ["places", "from", "split", "axis"], ["offset"]),
        node("Slice", ["places", "split", "to", "axis"], ["logits"]),
        node(mask, ["logits"], ["mask"]),
        node("DequantizeLinear", ["w", "s_w", "z_w"], ["w_dq"], axis=0),
        node(
            "DeformConv",
            ["x_dq", "w_dq" if quantized_weights else "w_float", "offset", "b", "mask"],
            ["deform"],
            pads=[1] * 4,
        ),
        node("QuantizeLinear", ["deform", "s_y", "z_y"], ["y_q"]),
        node("DequantizeLinear", ["y_q", "s_y", "z_y"], ["y"]),
    ]
    return model(nodes, {"x": (1, 8, 7, 6)}, {"y": None}, weights, opset=19)


def test_equals_the_oracle_and_comes_near_onnxruntime():
    proto = qdq()
    adopted = adopt(import_onnx(proto))
    assert {layer.kind for layer in adopted.plan.layers if not layer.integer} == {
        "slice",
        "sigmoid",
    }
    network = with_oracle(adopted)
    found = run_built(compile_module(adopted.mod, native_target()), network.inputs)
    wanted = integers_of(network)
    samples = next(name for name in found if name.endswith("sampled"))
    for name in (samples, "deform"):
        np.testing.assert_array_equal(found[name], wanted[name])
    (theirs,) = run_onnx(proto, *network.inputs.values())
    assert np.abs(found["outputs:0"] - theirs).max() <= 0.1001  # two steps


@pytest.mark.parametrize("options", [{"mask": "Relu"}, {"quantized_weights": False}], ids=str)
def test_what_stays_in_float(options):
    """A mask may exceed 1, which the scale of the image does not hold; or the weights are floats."""
    adopted = adopt(import_onnx(qdq(**options)))
    (layer,) = (layer for layer in adopted.plan.layers if layer.kind == "sample2d")
    assert layer.reason == "its result is not quantized at once"
