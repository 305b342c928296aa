"""Adopt: a model that another tool quantized becomes integers that the oracle computes from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from tvm.target import Target

import relay_int8
from benchmarks import zoo
from relay_int8.api.preview import preview
from relay_int8.errors import CalibrationError, ConfigError, CoverageError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph import dataflow
from relay_int8.quantization.adopt import adopt
from relay_int8.quantization.quantize import quantize
from relay_int8.quantization.quantized_model import QuantizedModel
from schedules.targets import TARGETS
from tests import modern_networks, reference
from tests.adopted_networks import run_on, with_oracle
from tests.onnx_models import model, run_onnx
from tests.quantized_networks import image, integers_of
from tests.run_built import run_built
from tests.x86_targets import FASTEST


def branches() -> onnx.ModelProto:
    """Return a network with a concat, an addition, pools, a leaky and a sigmoid branch."""
    rng = np.random.default_rng(3)
    weights = {
        name: rng.normal(size=dims).astype("float32") / 4
        for name, dims in {
            "w1": (16, 3, 3, 3),
            "b1": (16,),
            "w2": (8, 16, 1, 1),
            "w3": (24, 16, 3, 3),
            "w4": (24, 24, 1, 1),
            "w5": (10, 24),
            "b5": (10,),
        }.items()
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p1", "w2"], ["c2"]),
        node("LeakyRelu", ["c2"], ["l2"], alpha=0.1),
        node("Concat", ["p1", "l2"], ["k2"], axis=1),
        node("Conv", ["p1", "w3"], ["c3"], pads=[1, 1, 1, 1]),
        node("Sigmoid", ["c3"], ["s3"]),
        node("Add", ["k2", "s3"], ["a3"]),
        node("Conv", ["a3", "w4"], ["c4"]),
        node("GlobalAveragePool", ["c4"], ["g4"]),
        node("Flatten", ["g4"], ["f4"]),
        node("Gemm", ["f4", "w5", "b5"], ["y"], transB=1),
    ]
    return model(nodes, {"x": (2, 3, 12, 12)}, {"y": (2, 10)}, weights)


NETWORKS = {
    "branches": branches,
    "resnet18": lambda: zoo.build("resnet18", image_size=16, batch=2),
    "mobilenet_v2": lambda: zoo.build("mobilenet_v2", image_size=16, batch=1),
}


def quantized_by_onnxruntime(
    proto: onnx.ModelProto,
    folder: Path,
    form: str,
    *,
    per_channel: bool = True,
    prepared: bool = True,
    reduce_range: bool = False,
    activations: str = "QUInt8",
    options: Mapping[str, Any] | None = None,
) -> onnx.ModelProto:
    """Return a model as ONNX Runtime's static quantization writes it; ``prepared`` folds norms."""
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    (value,) = proto.graph.input
    dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    images = iter(np.random.default_rng(5).normal(size=(4, *dims)).astype("float32"))

    class Reader(quantization.CalibrationDataReader):
        def get_next(self) -> dict[str, np.ndarray] | None:
            found = next(images, None)
            return None if found is None else {value.name: found}

    source, target = folder / "float.onnx", folder / "quantized.onnx"
    onnx.save(proto, source)
    if prepared:
        quant_pre_process(str(source), str(source), skip_symbolic_shape=True)
    quantization.quantize_static(
        str(source),
        str(target),
        Reader(),
        quant_format=quantization.QuantFormat[form],
        activation_type=quantization.QuantType[activations],
        weight_type=quantization.QuantType.QInt8,
        per_channel=per_channel,
        reduce_range=reduce_range,
        extra_options=dict(options or {}),
    )
    return onnx.load(target)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("branches", "QDQ"),
        ("branches", "QOperator"),
    ],
)
def test_keeps_the_scales_and_equals_the_oracle(name: str, form: str, tmp_path: Path):
    assert_adopted(name, form, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), [("resnet18", "QDQ"), ("mobilenet_v2", "QOperator")])
def test_whole_networks_equal_the_oracle(name: str, form: str, tmp_path: Path, full: bool):
    if not full:
        pytest.skip("needs --full: a small network has their operators")
    assert_adopted(name, form, tmp_path)


def assert_adopted(name: str, form: str, tmp_path: Path) -> None:
    """Compare a network that ONNX Runtime quantized with the oracle, and with ONNX Runtime."""
    proto = quantized_by_onnxruntime(NETWORKS[name](), tmp_path, form)
    adopted = adopt(import_onnx(proto), relay_int8.QuantConfig(require_int8=True))
    assert [layer for layer in adopted.plan.layers if not layer.integer] == []
    (y,) = run_on(adopted)
    (theirs,) = run_onnx(proto, *image(adopted.mod).values())
    assert np.abs(y - theirs).max() <= 0.02 * np.abs(theirs).max()


def test_batch_norms_that_were_not_folded_are_integers_too(tmp_path: Path):
    proto = quantized_by_onnxruntime(modern_networks.u_net(), tmp_path, "QDQ", prepared=False)
    adopted = adopt(import_onnx(proto), relay_int8.QuantConfig(require_int8=True))
    assert [layer for layer in adopted.plan.layers if not layer.integer] == []
    (y,) = run_on(adopted)
    (theirs,) = run_onnx(proto, *image(adopted.mod).values())
    assert np.abs(y - theirs).max() <= 0.03 * np.abs(theirs).max()


def test_one_scale_for_all_channels_of_a_weight(tmp_path: Path):
    proto = quantized_by_onnxruntime(branches(), tmp_path, "QDQ", per_channel=False)
    adopted = adopt(import_onnx(proto))
    assert all(layer.integer for layer in adopted.plan.layers)
    run_on(adopted)


@pytest.mark.parametrize("per_channel", [False, True])
def test_float_weights_behind_a_pair(tmp_path: Path, per_channel: bool):
    """As exporters of trained quantization write them; ``Gemm`` transposes some of them."""
    options = {"AddQDQPairToWeight": True}
    proto = quantized_by_onnxruntime(
        branches(), tmp_path, "QDQ", per_channel=per_channel, options=options
    )
    assert "w1" in {w.name for w in proto.graph.initializer}
    adopted = adopt(import_onnx(proto), relay_int8.QuantConfig(require_int8=True))
    assert all(layer.integer for layer in adopted.plan.layers)
    (y,) = run_on(adopted)
    (theirs,) = run_onnx(proto, *image(adopted.mod).values())
    assert np.abs(y - theirs).max() <= 0.02 * np.abs(theirs).max()


BYTES = np.arange(288, dtype="uint8").reshape(8, 4, 3, 3)


def qdq_convolution(**changes: np.ndarray) -> onnx.ModelProto:
    """Return x -> Q -> DQ -> conv -> Q -> DQ; ``changes`` replaces constants."""
    rng = np.random.default_rng(4)
    constants: dict[str, np.ndarray] = {
        "s_x": np.float32(0.05),
        "z_x": np.uint8(120),
        "w": rng.integers(-128, 128, (8, 4, 3, 3)).astype(np.int8),
        "s_w": np.float32(0.01),
        "z_w": np.int8(0),
        "s_y": np.float32(0.2),
        "z_y": np.uint8(100),
        **changes,
    }
    pair = [
        helper.make_node("QuantizeLinear", ["x", "s_x", "z_x"], ["x_q"], axis=1),
        helper.make_node("DequantizeLinear", ["x_q", "s_x", "z_x"], ["x_dq"], axis=1),
        helper.make_node("DequantizeLinear", ["w", "s_w", "z_w"], ["w_dq"], axis=0),
        helper.make_node("Conv", ["x_dq", "w_dq"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", ["c", "s_y", "z_y"], ["y_q"]),
        helper.make_node("DequantizeLinear", ["y_q", "s_y", "z_y"], ["y"]),
    ]
    return model(pair, {"x": (1, 4, 6, 6)}, {"y": (1, 8, 6, 6)}, constants, opset=19)


@pytest.mark.fast
@pytest.mark.parametrize(
    "weights",
    [
        {},
        {"w": np.full((8, 4, 3, 3), -128, np.int8)},
        {"w": np.full((8, 4, 3, 3), 7, np.uint8), "z_w": np.uint8(128)},
        {"s_w": np.linspace(0.01, 0.05, 8, dtype="float32"), "z_w": np.zeros(8, np.int8)},
        {"w": BYTES, "z_w": np.uint8(0)},
        {"w": BYTES, "z_w": np.uint8(3)},
        {"w": BYTES, "z_w": np.uint8(131)},
        {"w": BYTES.astype(np.int8), "z_w": np.int8(-128)},
        {
            "w": BYTES,
            "s_w": np.linspace(0.01, 0.05, 8, dtype="float32"),
            "z_w": np.arange(0, 256, 32, dtype="uint8"),
        },
    ],
    ids=[
        "all of int8",
        "-128",
        "unsigned",
        "per channel",
        "zero point 0",
        "zero point",
        "of a few",
        "of int8",
        "zero points per channel",
    ],
)
def test_weights_keep_their_integers(weights: dict[str, np.ndarray]):
    adopted = adopt(import_onnx(qdq_convolution(**weights)))
    assert adopted.plan.layers[0].reason is None
    run_few(adopted)


@pytest.mark.fast
def test_a_scale_of_zero_is_refused_by_name():
    with pytest.raises(CalibrationError, match=r"tensor x_q: scale 0\.0 found; a positive"):
        adopt(import_onnx(qdq_convolution(s_x=np.float32(0))))


def run_few(adopted: QuantizedModel) -> None:
    """Compare the one layer of a network with the oracle."""
    network = with_oracle(adopted)
    built = relay_int8.compiler.build.compile_module(adopted.mod, Target(TARGETS["x86"]))
    found = run_built(built, network.inputs)
    np.testing.assert_array_equal(found["c"], integers_of(network)["c"])


@pytest.mark.fast
@pytest.mark.parametrize(
    ("constants", "reason"),
    [
        (
            {"w": BYTES.astype(np.int32), "z_w": np.int32(0)},
            "its weights are not of integers with a scale a channel",
        ),
        (
            {"s_x": np.full(4, 0.05, "float32"), "z_x": np.full(4, 120, np.uint8)},
            "input x_dq is not quantized",
        ),
        ({"z_x": np.uint16(30000)}, "input x_dq is quantized to uint16; integers of 8 bits"),
    ],
    ids=["weights of int32", "activation by channel", "activation of 16 bits"],
)
def test_what_has_no_integer_form_stays_in_float(constants, reason: str):
    proto = qdq_convolution(**constants)
    adopted = adopt(import_onnx(proto))
    assert reason in (adopted.plan.layers[0].reason or "")
    x = image(adopted.mod)
    built = relay_int8.compiler.build.compile_module(adopted.mod, Target(TARGETS["x86"]))
    (standard,) = ReferenceEvaluator(proto).run(None, x)
    np.testing.assert_allclose(run_built(built, x)["outputs:0"], standard, atol=0.2001)  # a step
    for required in (True, "products"):
        with pytest.raises(CoverageError, match=reason):
            adopt(import_onnx(proto), relay_int8.QuantConfig(require_int8=required))
    with pytest.raises(ConfigError, match='pass True for every layer, or "products"'):
        relay_int8.QuantConfig(require_int8="layers")


@pytest.mark.fast
@pytest.mark.parametrize("target", ["x86", FASTEST])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_integers_in_and_out(dtype: str, target: str):
    proto = qdq_convolution(z_x=np.array(12, dtype), z_y=np.array(-3 % 128, dtype))
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    del proto.graph.node[0], proto.graph.node[-1]
    proto.graph.input[0].CopyFrom(helper.make_tensor_value_info("x_q", code, (1, 4, 6, 6)))
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y_q", code, (1, 8, 6, 6)))
    adopted = adopt(import_onnx(proto))
    info = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(info.min, info.max + 1, (1, 4, 6, 6)).astype(dtype)
    built = relay_int8.compiler.build.compile_module(adopted.mod, Target(TARGETS[target]))
    y = run_built(built, {"x_q": x})["outputs:0"]
    assert y.dtype == dtype
    np.testing.assert_allclose(y.astype(int), run_onnx(proto, x)[0].astype(int), atol=1)


@pytest.mark.fast
def test_sums_without_scale_stay_in_float():
    rng = np.random.default_rng(1)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("ConvInteger", ["q", "w", "z"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["y"], to=TensorProto.FLOAT),
    ]
    weights = {
        "w": rng.integers(-128, 128, (8, 4, 3, 3)).astype(np.int8),
        "s": np.float32(0.05),
        "z": np.uint8(117),
    }
    proto = model(nodes, {"x": (1, 4, 6, 6)}, {"y": (1, 8, 4, 4)}, weights)
    adopted = adopt(import_onnx(proto))
    built = relay_int8.compiler.build.compile_module(adopted.mod, Target(TARGETS["x86"]))
    x = image(adopted.mod)
    np.testing.assert_array_equal(run_built(built, x)["outputs:0"], run_onnx(proto, *x.values())[0])


def test_compiles_without_data(tmp_path: Path):
    file = tmp_path / "model.onnx"
    onnx.save(quantized_by_onnxruntime(branches(), tmp_path, "QOperator"), file)
    report = relay_int8.compile_model(
        file, None, tmp_path / "model.ri8", options=relay_int8.BuildOptions(target="x86")
    )
    assert report.settings["scales"] == "of the model"
    x = np.random.default_rng(9).normal(size=(2, 3, 12, 12)).astype("float32")
    adopted = adopt(relay_int8.load_model(file).module)
    expected = reference.run(adopted.mod, {"x": x})["y"]
    np.testing.assert_array_equal(relay_int8.load(tmp_path / "model.ri8").run(x)["y"], expected)


@pytest.mark.fast
def test_what_would_have_no_effect_is_refused(tmp_path: Path):
    mod = import_onnx(qdq_convolution())
    with pytest.raises(ConfigError, match="method would have no effect"):
        adopt(mod, relay_int8.QuantConfig(method="mse"))
    onnx.save(qdq_convolution(), tmp_path / "m.onnx")
    with pytest.raises(ConfigError, match="quantized already"):
        quantize(mod, [np.zeros((1, 4, 6, 6), "float32")])
    report = preview(relay_int8.load_model(tmp_path / "m.onnx"))
    assert report.settings["scales"] == "of the model"


@pytest.mark.fast
@pytest.mark.parametrize(
    ("mode", "fill"),
    [("constant", 0), ("constant", 117), ("constant", 203), ("reflect", 0), ("edge", 0)],
)
def test_a_pad_of_integers_keeps_its_integers(mode: str, fill: int):
    constants = {
        "s": np.float32(0.05),
        "z": np.uint8(117),
        "widths": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "fill": np.uint8(fill),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("Pad", ["q", "widths", "fill"], ["p"], mode=mode),
        helper.make_node("DequantizeLinear", ["p", "s", "z"], ["y"]),
    ]
    proto = model(nodes, {"x": (1, 4, 6, 6)}, {"y": (1, 4, 8, 8)}, constants)
    adopted = adopt(import_onnx(proto))
    built = relay_int8.compiler.build.compile_module(adopted.mod, Target(TARGETS[FASTEST]))
    x = image(adopted.mod)
    np.testing.assert_array_equal(run_built(built, x)["outputs:0"], run_onnx(proto, *x.values())[0])


@pytest.mark.fast
def test_a_float_model_needs_data(tmp_path: Path):
    onnx.save(branches(), tmp_path / "float.onnx")
    with pytest.raises(ConfigError, match="give calibration images"):
        relay_int8.compile_model(tmp_path / "float.onnx", None, tmp_path / "model.ri8")
    assert not dataflow.is_quantized(import_onnx(branches()))
