"""Quantizers of networks trained with quantization: QONNX's and Brevitas's, by formula."""

import numpy as np
import onnx
import pytest
from onnx import helper

from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import is_quantized
from relay_int8.quantization.adopt import adopt
from tests import reference
from tests.onnx_models import assert_close, model, run_onnx, run_relax

DOMAIN = "qonnx.custom_op.general"
SHAPE = (2, 3, 4, 5)
RNG = np.random.default_rng(3)
X = (4 * RNG.normal(size=SHAPE)).astype("float32")
OF_CHANNELS = RNG.uniform(0.1, 0.4, (1, 3, 1, 1)).astype("float32")


def f32(*values):
    return np.array(values[0] if len(values) == 1 else values, "float32")


def quantizer(
    op, *constants, domain=DOMAIN, opset=11, weight=None, **attributes
) -> onnx.ModelProto:
    """Return a model of one quantizer: of its input, or of a constant that is added to it."""
    weights = {f"c{i}": np.asarray(c, "float32") for i, c in enumerate(constants)}
    read = "x" if weight is None else "w"
    nodes = [helper.make_node(op, [read, *weights], ["q"], domain=domain, **attributes)]
    if weight is not None:
        weights["w"] = weight
    nodes.append(helper.make_node("Add", ["q", "x"], ["y"]) if weight is not None else
                 helper.make_node("Identity", ["q"], ["y"]))  # fmt: skip
    built = model(nodes, {"x": SHAPE}, {"y": SHAPE}, weights, opset)
    built.opset_import.append(helper.make_opsetid(domain, 1))
    return built


def quant(x, scale, zero, bits, *, signed=1, narrow=0, rounding_mode="ROUND"):
    """QONNX's ``quant``."""
    low = -(2 ** (bits - 1)) + narrow if signed else 0
    high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1 - narrow
    steps = np.clip(x / np.float32(scale) + zero, low, high)
    rounded = {"ROUND": np.rint, "FLOOR": np.floor, "CEIL": np.ceil}[rounding_mode](steps)
    return (rounded - zero) * scale


CASES = [
    ((0.05, 0, 8), {"signed": 1}),
    ((0.05, 0, 8), {"signed": 1, "narrow": 1}),
    ((0.05, 12, 8), {"signed": 0}),
    ((0.5, 0, 4), {"signed": 1, "narrow": 1}),
    ((0.5, 3, 3), {"signed": 0}),
    ((0.5, 0, 2), {"signed": 1, "narrow": 1}),
    ((0.001, 0, 16), {"signed": 1}),
    ((OF_CHANNELS, 0, 4), {"signed": 1}),
    ((0.5, 0, 4), {"signed": 1, "rounding_mode": "FLOOR"}),
]


@pytest.mark.parametrize(("constants", "attributes"), CASES)
@pytest.mark.parametrize("is_weight", [False, True])
def test_quantizers(constants, attributes, is_weight):
    weight = RNG.normal(size=SHAPE).astype("float32") if is_weight else None
    mod = import_onnx(quantizer("Quant", *constants, weight=weight, **attributes))
    (found,) = run_relax(mod, X)
    wanted = quant(weight if is_weight else X, *constants, **attributes)
    assert_close(found, wanted + X if is_weight else wanted)
    scale, _, bits = constants
    has_pair = bits <= 8 and "rounding_mode" not in attributes
    is_whole = np.size(scale) == 1
    assert is_quantized(mod) == (has_pair and is_whole and not is_weight)


@pytest.mark.parametrize("is_weight", [False, True])
def test_signs(is_weight):
    weight = RNG.normal(size=SHAPE).astype("float32") if is_weight else None
    mod = import_onnx(quantizer("BipolarQuant", 0.25, weight=weight))
    assert is_quantized(mod) == (not is_weight)
    x = X.copy()
    x[0, 0, 0, 0] = 0
    (found,) = run_relax(mod, x)
    wanted = np.where((weight if is_weight else x) >= 0, 0.25, -0.25)
    assert_close(found, wanted + x if is_weight else wanted)


def test_lowest_bits_are_left_out():
    x = (RNG.integers(0, 64, SHAPE) * 0.25).astype("float32")
    (found,) = run_relax(import_onnx(quantizer("Trunc", 0.25, 0, 6, 4)), x)
    np.testing.assert_array_equal(found, np.floor(x / 0.25 / 4) * np.float32(0.25))


@pytest.mark.parametrize("domain", ["onnx.brevitas", "finn.custom_op.general"])
def test_domains_of_other_tools(domain):
    (found,) = run_relax(import_onnx(quantizer("Quant", 0.5, 0, 4, domain=domain, signed=1)), X)
    assert_close(found, quant(X, 0.5, 0, 4))


@pytest.mark.parametrize(
    ("constants", "attributes", "message"),
    [((0.5, 0, 0), {}, r"numbers of bits \[0.0\]"), ((0, 0, 8), {}, "its scale is not positive"),
     ((0.5, 0, 8), {"rounding_mode": "UP"}, "its rounding mode is UP")],
)  # fmt: skip
def test_quantizers_that_cannot_be_read_are_refused(constants, attributes, message):
    with pytest.raises(UnsupportedOpError, match=message):
        import_onnx(quantizer("Quant", *constants, **attributes))


def network(opset: int, domain: str = DOMAIN) -> onnx.ModelProto:
    """Return convolutions of 4-bit weights, one of signs, with activations of 8 and 4 bits."""
    rng = np.random.default_rng(5)
    weights = {"zero": f32(0), "eight": f32(8), "four": f32(4)}

    def _quant(x, scale, bits, **attributes):
        weights[f"{x}_s"] = np.asarray(scale, "float32")
        inputs = [x, f"{x}_s", "zero", bits]
        return helper.make_node("Quant", inputs, [f"{x}_q"], domain=domain, **attributes)

    for name, dims in {"w1": (6, 3, 3, 3), "w2": (5, 6, 3, 3), "w3": (4, 5, 1, 1)}.items():
        weights[name] = rng.normal(0, 0.3, dims).astype("float32")
    weights |= {"b1": f32(rng.normal(0, 0.3, 6)), "s3": f32(0.2)}
    weights["gamma"] = f32([1.2, -0.7, 0, 0.9, -1.1, 1])
    weights |= {name: f32(rng.uniform(0.1, 0.5, 6)) for name in ("beta", "mean", "var")}
    scales = rng.uniform(0.05, 0.15, (6, 1, 1, 1))
    nodes = [
        _quant("x", 0.05, "eight", signed=1), _quant("w1", scales, "four", signed=1, narrow=1),
        helper.make_node("Conv", ["x_q", "w1_q", "b1"], ["c1"]),
        helper.make_node("BatchNormalization", ["c1", "gamma", "beta", "mean", "var"], ["n1"]),
        helper.make_node("Relu", ["n1"], ["r1"]), _quant("r1", 0.3, "four", signed=0),
        _quant("w2", 0.1, "four", signed=1), helper.make_node("Conv", ["r1_q", "w2_q"], ["c2"]),
        _quant("c2", 0.1, "eight", signed=1, narrow=1),
        helper.make_node("BipolarQuant", ["w3", "s3"], ["w3_q"], domain=domain),
        helper.make_node("Conv", ["c2_q", "w3_q"], ["c3"]), _quant("c3", 0.1, "eight", signed=1),
    ]  # fmt: skip
    built = model(nodes, {"x": (1, 3, 9, 8)}, {"c3_q": (1, 4, 5, 4)}, weights, opset)
    built.opset_import.append(helper.make_opsetid(domain, 1))
    return built


@pytest.mark.parametrize("opset", [9, 11, 13])
def test_a_network_trained_with_few_bits_is_adopted(opset):
    mod = import_onnx(network(opset))
    adopted = adopt(mod)
    assert [(layer.kind, layer.reason) for layer in adopted.plan.layers] == [("conv2d", None)] * 3
    x = np.random.default_rng(6).normal(size=(1, 3, 9, 8)).astype("float32")
    tensors = reference.run(adopted.mod, {"x": x})
    found = tensors[reference.output_names(adopted.mod, {"x": x})[0]]
    (wanted,) = run_relax(mod, x)
    steps = np.abs(found - wanted) / 0.1
    assert steps.max() < 1.01
    assert (steps > 0.5).mean() < 0.03  # of sums halfway between two steps


def clipped_pairs() -> onnx.ModelProto:
    """Return Brevitas's QCDQ: integers of 4 bits are clipped between Q and DQ."""
    weights = {"s": f32(0.05), "z": np.int8(0), "s4": f32(0.3), "z4": np.uint8(0)}
    weights |= {"low": np.uint8(0), "high": np.uint8(15), "sw": f32(RNG.uniform(0.05, 0.1, 6))}
    weights |= {"w": RNG.integers(-7, 8, (6, 3, 3, 3)).astype("int8"), "zw": np.zeros(6, "int8")}
    weights |= {"v": RNG.integers(-7, 8, (5, 6, 1, 1)).astype("int8"), "sv": f32(0.1)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["wd"], axis=0),
        helper.make_node("Conv", ["xd", "wd"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "s4", "z4"], ["rq"]),
        helper.make_node("Clip", ["rq", "low", "high"], ["rc"]),
        helper.make_node("DequantizeLinear", ["rc", "s4", "z4"], ["rd"]),
        helper.make_node("DequantizeLinear", ["v", "sv", "z"], ["vd"]),
        helper.make_node("Conv", ["rd", "vd"], ["y"]),
    ]
    return model(nodes, {"x": (1, 3, 9, 8)}, {"y": (1, 5, 7, 6)}, weights, 13)


def test_clipped_integers_are_quantized_clips():
    built = clipped_pairs()
    mod = import_onnx(built)
    assert {layer.reason for layer in adopt(mod).plan.layers} == {None}
    x = RNG.normal(size=(1, 3, 9, 8)).astype("float32")
    assert_close(run_relax(mod, x)[0], run_onnx(built, x)[0])
