"""QDQ files of small networks: their integers in ONNX Runtime, operator by operator and whole."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.utils import Extractor
from tvm import relax

from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import UnsupportedOpError
from relay_int8.export.qdq import export_qdq
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import attributes
from relay_int8.quantization.adopt import adopt
from schedules.targets import native_target
from tests import reference
from tests.onnx_models import exact_session
from tests.quantized_networks import QuantizedNetwork, assert_equals_oracle, image
from tests.small_networks import NETWORKS, NetworkWriter

PRESETS = ("int8", "int8-symmetric", "int8-asymmetric")


@cache
def quantized(name: str, preset: str = "int8") -> QuantizedNetwork:
    """Return a small network, made once for all tests."""
    return QuantizedNetwork.make(NETWORKS[name](), preset=preset)


def layers(model: onnx.ModelProto) -> Iterator[tuple[list[str], str]]:
    """Yield what each Q/DQ pair's integers are computed from, and their name."""
    producer = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        if node.op_type != "QuantizeLinear":
            continue
        sources, stack = [], [node.input[0]]
        while stack:
            name = stack.pop()
            made = producer.get(name)
            if made is None:
                sources += [name] if name in [i.name for i in model.graph.input] else []
            elif made.op_type == "QuantizeLinear":
                sources.append(name)
            else:
                stack.extend(made.input)
        yield sorted(set(sources)), node.output[0]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_operator_is_within_one_step(name, preset, fused):
    network = quantized(name, preset)
    model = export_qdq(network.mod)
    extractor = Extractor(onnx.shape_inference.infer_shapes(model))
    qrange = json.loads(str(attributes(network.mod["main"])["int8.qrange"]))
    steps = []
    for sources, integers in layers(model):
        part = extractor.extract_model(sources, [integers])
        feed = {s: network.expected.get(s, network.inputs.get(s)) for s in sources}
        (found,) = exact_session(part, fused=fused).run(None, feed)
        wanted = network.expected[integers]
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        low, high = qrange.get(integers, (-128, 255))
        assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1, integers
        steps.append(np.clip(found.astype(int), low, high) - wanted)
    assert len(steps) > 4
    # But for ends that ONNX cannot narrow, what differs is rounding right at a half, and how exact
    # a function is in an epilogue.
    share = 2e-2 if name in ("activations", "functions", "sums") else 2e-3
    assert np.mean(np.concatenate([step.ravel() for step in steps]) != 0) < share


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_frontend_reads_the_same_integers_back(name, preset):
    network = quantized(name, preset)
    for bias in ("int32", "float"):
        again = normalize()(import_onnx(export_qdq(network.mod, bias=bias)))
        found = reference.run(again, network.inputs)
        activations = [n for n in network.expected if n.endswith(":q") and not n.endswith(":w:q")]
        assert set(activations) <= set(found)
        outputs = [reference.output_names(mod, network.inputs) for mod in (again, network.mod)]
        for mine, theirs in [
            *zip(*outputs, strict=True),
            *zip(activations, activations, strict=True),
        ]:
            np.testing.assert_array_equal(found[mine], network.expected[theirs], err_msg=mine)


@pytest.mark.parametrize("name", ["activations"])
def test_the_file_compiles_to_the_same_integers(name):
    network = quantized(name)
    adopted = adopt(import_onnx(export_qdq(network.mod)))
    again = replace(network, mod=adopted.mod, plan=adopted.plan)
    assert_equals_oracle(again, native_target())


def test_onnx_runtime_computes_layers_in_integers(tmp_path):
    model = export_qdq(quantized("branches").mod)
    path = tmp_path / "optimized.onnx"
    exact_session(model, fused=True, optimized=path)
    operators = [node.op_type for node in onnx.load(path).graph.node]
    # Of five, b has a relu in front of a signed scale, and f gives the result, in float.
    assert operators.count("QLinearConv") == 3
    assert {"QLinearConcat", "QLinearAveragePool"} <= set(operators)
    assert not {"Relu", "AveragePool"} & set(operators)


def test_integers_of_weights_and_biases_are_those_of_the_contract():
    network = quantized("depthwise")
    model = export_qdq(network.mod)
    arrays = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    weights = [name for name in arrays if name.endswith(":w:q")]
    assert len(weights) == 7
    for name in weights:
        assert arrays[name].dtype == np.int8
        np.testing.assert_array_equal(arrays[name], network.expected[name])
    scale, s_x, s_w = (arrays[f"{name}:scale"] for name in ("i:bias", "h:dq", "i/conv:w:dq"))
    np.testing.assert_array_equal(scale, (np.float64(s_x) * s_w.astype(np.float64)).astype("f4"))
    float_bias = export_qdq(network.mod, bias="float")
    assert not any(
        item.data_type == onnx.TensorProto.INT32 for item in float_bias.graph.initializer
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_an_open_batch_takes_any(name):
    network = quantized(name)
    one, many = (export_qdq(network.mod, open_batch=flag) for flag in (False, True))
    images = [image(network.mod, seed)["x"] for seed in (1, 2, 3)]
    (found,) = exact_session(many, fused=False).run(None, {"x": np.concatenate(images)})
    alone = exact_session(one, fused=False)
    np.testing.assert_array_equal(
        found, np.concatenate([alone.run(None, {"x": x})[0] for x in images])
    )


def test_what_moves_the_batch_keeps_it_fixed():
    net = NetworkWriter((2, 3, 4, 4))
    y = net.emit("y", relax.op.reshape(net.x, (1, 6, 4, 4)))
    with pytest.raises(UnsupportedOpError, match="moves the batch"):
        export_qdq(net.module(y), open_batch=True)


def test_what_the_type_does_not_imply_stays():
    network = quantized("residual", "int8-symmetric")
    assert "Relu" in [node.op_type for node in export_qdq(network.mod).graph.node]
    network = quantized("residual")
    assert "Relu" not in [node.op_type for node in export_qdq(network.mod).graph.node]


def test_a_result_that_is_an_integer_tensor_keeps_its_name():
    net = NetworkWriter()
    a = net.conv("a", net.x, 8, 3)
    b = net.conv("b", a, 4, 1)
    network = QuantizedNetwork.make(net.module(a, b))
    names = reference.output_names(network.mod, network.inputs)
    assert names == ["a:dq", "b"]
    model = export_qdq(network.mod, ["a", "b"])
    assert [value.name for value in model.graph.output] == ["a", "b"]
    found = exact_session(model, fused=False).run(None, network.inputs)
    for array, name in zip(found, names, strict=True):
        np.testing.assert_allclose(array, network.expected[name], atol=0.1)
