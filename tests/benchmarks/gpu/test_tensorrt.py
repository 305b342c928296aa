"""What TensorRT reads: made by ONNX Runtime, so that it is tested without TensorRT."""

import sys
from types import ModuleType

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from benchmarks import zoo


@pytest.fixture
def quantize(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorrt", ModuleType("tensorrt"))
    monkeypatch.delitem(sys.modules, "benchmarks.gpu.tensorrt_int8", raising=False)
    from benchmarks.gpu import tensorrt_int8

    yield tensorrt_int8.quantize
    del sys.modules["benchmarks.gpu.tensorrt_int8"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pairs_are_symmetric_and_weights_have_their_own(quantize, tmp_path):
    model, quantized = tmp_path / "model.onnx", tmp_path / "quantized.onnx"
    network = zoo.build("resnet18", image_size=32, depth="cut", batch=2)
    model.write_bytes(network.SerializeToString())
    quantize(model, quantized, (2, 3, 32, 32))
    graph = onnx.load(quantized).graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    pairs = [node for node in graph.node if node.op_type == "QuantizeLinear"]
    zeros = [constants[node.input[2]] for node in pairs]
    assert {zero.dtype for zero in zeros} == {np.dtype(np.int8)}
    assert not any(zero.any() for zero in zeros)
    made_by = {node.output[0]: node for node in graph.node}
    convolutions = [node for node in graph.node if node.op_type == "Conv"]
    assert convolutions
    for node in convolutions:
        assert made_by[node.input[0]].op_type == "DequantizeLinear"
        weight = made_by[made_by[node.input[1]].input[0]]
        assert weight.op_type == "QuantizeLinear", "TensorRT wants float weights and a pair"
        assert constants[weight.input[1]].size == constants[weight.input[0]].shape[0]
        assert constants[node.input[2]].dtype == np.float32, "biases stay float"
