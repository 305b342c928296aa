"""What else ONNX Runtime's quantizer writes: ranges of every run, resizes of integers."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import relay_int8
from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph import dataflow
from relay_int8.quantization.adopt import adopt
from relay_int8.quantization.annotate import annotate
from tests import modern_networks
from tests.adopted_networks import run_on
from tests.mxnet_models import run_fast
from tests.onnx_models import model, run_onnx
from tests.quantization.test_adopt import branches, quantized_by_onnxruntime
from tests.quantized_networks import image
from tests.x86_targets import X86


@pytest.mark.parametrize("weights", ["QInt8", "QUInt8"])
def test_ranges_of_every_run_are_left_out(tmp_path: Path, weights: str):
    """The model is the float one whose weights it holds, to be calibrated as any other."""
    from onnxruntime import quantization

    source, target = tmp_path / "float.onnx", tmp_path / "dynamic.onnx"
    onnx.save(branches(), source)
    kind = quantization.QuantType[weights]
    quantization.quantize_dynamic(str(source), str(target), weight_type=kind)
    proto = onnx.load(target)
    kinds = {node.op_type for node in proto.graph.node}
    assert {"DynamicQuantizeLinear", "ConvInteger", "MatMulInteger"} <= kinds
    mod = import_onnx(proto)
    assert not dataflow.is_quantized(mod)
    x = image(mod)
    (found,) = run_fast(mod, *x.values())
    (theirs,) = run_onnx(proto, *x.values())
    (exact,) = run_onnx(branches(), *x.values())
    assert np.abs(found - theirs).max() <= 0.02 * np.abs(theirs).max()
    assert np.abs(found - exact).max() <= 0.02 * np.abs(exact).max()
    layers = annotate(normalize()(mod), relay_int8.QuantConfig()).layers
    assert [layer.name for layer in layers if layer.macs and not layer.integer] == []


def test_a_resize_of_integers_has_their_scale(tmp_path: Path):
    proto = quantized_by_onnxruntime(modern_networks.deeplab_v3(), tmp_path, "QOperator")
    assert "Resize" in {node.op_type for node in proto.graph.node}
    adopted = adopt(import_onnx(proto), relay_int8.QuantConfig(require_int8=True))
    assert [layer for layer in adopted.plan.layers if not layer.integer] == []
    (y,) = run_on(adopted)
    (theirs,) = run_onnx(proto, *image(adopted.mod).values())
    assert np.abs(y - theirs).max() <= 0.03 * np.abs(theirs).max()


def with_shared_weights(proto: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """Quantize a model in which layers share weights, to 7 bits.

    Of 8 bits, ONNX Runtime has to make them u8 to be exact without VNNI; as of 1.32 it cannot where
    two layers read them.
    """
    return quantized_by_onnxruntime(proto, folder, "QDQ", reduce_range=True)


def assert_integers_near_onnxruntime(proto: onnx.ModelProto) -> None:
    """Adopt a quantized model: no layer is float, and its outputs are ONNX Runtime's within 2 %."""
    adopted = adopt(import_onnx(proto))
    assert [layer for layer in adopted.plan.layers if not layer.integer] == []
    (y,) = run_on(adopted)
    (theirs,) = run_onnx(proto, *image(adopted.mod).values())
    assert np.abs(y - theirs).max() <= 0.02 * np.abs(theirs).max()


@pytest.mark.parametrize("mode", ["reflect", "edge"])
def test_pads_are_in_integers(mode: str, tmp_path: Path):
    rng = np.random.default_rng(7)
    weights = {name: rng.normal(size=(8, 8, 3, 3)).astype("float32") / 8 for name in ("v", "w")}
    weights["widths"] = np.array([0, 0, 1, 2, 0, 0, 3, 2])
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Pad", ["b", "widths"], ["c"], mode=mode),
        helper.make_node("Conv", ["c", "w"], ["d"]),
        helper.make_node("Pad", ["d", "widths"], ["e"], mode=mode),
        helper.make_node("Conv", ["e", "w"], ["y"]),
    ]
    proto = model(nodes, {"x": (1, 8, 7, 6)}, {"y": None}, weights)
    proto = with_shared_weights(proto, tmp_path)
    assert_integers_near_onnxruntime(proto)


def test_a_pad_keeps_its_fill_value(tmp_path: Path):
    """The quantizer puts it behind a DequantizeLinear."""
    rng = np.random.default_rng(8)
    weights = {name: rng.normal(size=(8, 8, 1, 1)).astype("float32") / 3 for name in ("v", "w")}
    weights |= {"widths": np.array([0, 0, 1, 2, 0, 0, 3, 2]), "fill": np.float32(1)}
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"]),
        helper.make_node("Pad", ["a", "widths", "fill"], ["b"]),
        helper.make_node("Conv", ["b", "w"], ["c"]),
        helper.make_node("Conv", ["c", "w"], ["d"]),
        helper.make_node("Conv", ["d", "w"], ["y"]),
    ]
    proto = model(nodes, {"x": (1, 8, 7, 6)}, {"y": None}, weights)
    proto = with_shared_weights(proto, tmp_path)
    (pad,) = (item for item in proto.graph.node if item.op_type == "Pad")
    assert pad.input[2] != "fill"
    adopted = adopt(import_onnx(proto))
    (y,) = run_on(adopted)
    (theirs,) = run_onnx(proto, *image(adopted.mod).values())
    assert np.abs(y - theirs).max() <= 0.02 * np.abs(theirs).max()


OPERANDS = {"tensor": "b", "channel": "k"}


@pytest.mark.parametrize(
    ("op", "operand"),
    [("Sub", "tensor"), ("Max", "tensor"), ("Min", "tensor")]
    + [(op, "channel") for op in ("Add", "Sub", "Mul", "Div")],
)
def test_arithmetic_is_in_integers(op: str, operand: str, tmp_path: Path):
    rng = np.random.default_rng(6)
    weights = {name: rng.normal(size=(8, 8, 1, 1)).astype("float32") / 3 for name in ("v", "w")}
    weights["k"] = rng.uniform(0.5, 2, (8, 1, 1)).astype("float32")
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"]),
        helper.make_node("Conv", ["a", "w"], ["b"]),
        helper.make_node(op, ["a", OPERANDS[operand]], ["c"]),
        helper.make_node("Conv", ["c", "w"], ["d"]),
        helper.make_node("Concat", ["b", "d"], ["y"], axis=1),
    ]
    proto = model(nodes, {"x": (1, 8, 7, 6)}, {"y": (1, 16, 7, 6)}, weights)
    proto = with_shared_weights(proto, tmp_path)
    assert_integers_near_onnxruntime(proto)


@pytest.mark.parametrize("target", X86)
@pytest.mark.parametrize("dims", [(2, 5, 8), (1, 3, 4, 8)])
@pytest.mark.parametrize("kind", ["QInt8", "QUInt8"])
def test_constants_beside_quantized_products_are_integers(
    kind: str, dims: tuple[int, ...], target: str, tmp_path: Path
):
    """Biases of linear layers, scales of channels, positions: each has a pair of the file."""
    rng = np.random.default_rng(11)
    weights = {name: rng.normal(size=(8, 8)).astype("float32") / 3 for name in "uvw"}
    weights |= {name: rng.normal(size=8).astype("float32") for name in ("b", "c", "gamma")}
    weights["positions"] = rng.normal(size=dims[1:]).astype("float32")
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["a"]),
        helper.make_node("Add", ["b", "a"], ["ab"]),
        helper.make_node("Relu", ["ab"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["d"]),
        helper.make_node("Add", ["d", "c"], ["dc"]),
        helper.make_node("Mul", ["gamma", "dc"], ["m"]),
        helper.make_node("Add", ["m", "positions"], ["p"]),
        helper.make_node("MatMul", ["p", "u"], ["y"]),
    ]
    proto = model(nodes, {"x": dims}, {"y": dims}, weights)
    proto = quantized_by_onnxruntime(proto, tmp_path, "QDQ", activations=kind, prepared=False)
    adopted = adopt(import_onnx(proto))
    assert [layer for layer in adopted.plan.layers if not layer.integer] == []
    (y,) = run_on(adopted, target)
    (theirs,) = run_onnx(proto, *image(adopted.mod).values())
    assert np.abs(y - theirs).max() <= 0.02 * np.abs(theirs).max()


@pytest.mark.fast
def test_a_resize_of_integers_without_scale():
    """Interpolation needs none: ONNX Runtime cuts fractions off, we round."""
    sizes = {"sizes": np.array([1, 2, 9, 5], "int64")}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[1, 1]),
        helper.make_node("Resize", ["p", "", "", "sizes"], ["y"], mode="linear"),
    ]
    proto = model(nodes, {"x": (1, 2, 5, 8)}, {"y": (1, 2, 9, 5)}, sizes, opset=13)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.UINT8
    x = np.random.default_rng(0).integers(0, 256, (1, 2, 5, 8)).astype(np.uint8)
    (found,) = run_fast(import_onnx(proto), x)
    (theirs,) = run_onnx(proto, x)
    assert found.dtype == np.uint8
    step = found.astype(int) - theirs
    assert step.min() >= 0
    assert step.max() == 1
