"""A network of which one layer reads a tensor that has too wide a range for eight bits."""

import numpy as np
import onnx

from tests.onnx_writer import OnnxWriter

F = np.float32
SHAPE = (1, 4, 6, 6)
HARMED, HARMED_ROOT = "relu_3", "conv_2"
"""Reads relu_1, of which one channel is as large as a thousand others."""
OUTPUT = "matmul_8"


def wide_network() -> onnx.ModelProto:
    """Return x -> conv, relu -> conv, relu -> conv, relu -> mean -> dense."""
    net = OnnxWriter(SHAPE, seed=3)
    first = net.rng.normal(size=(8, 4, 1, 1)).astype(F)
    second = net.rng.normal(size=(8, 8, 1, 1)).astype(F)
    first[0] *= 1000
    second[:, 0] /= 1000
    x = "x"
    for weights in (first, second, net.rng.normal(size=(8, 8, 1, 1)).astype(F)):
        x = net.node("Relu", [net.node("Conv", [x, net.constant(weights)], 8)], 8)
    mean = net.node("Flatten", [net.node("GlobalAveragePool", [x], 8)], 8)
    return net.finish(net.node("MatMul", [mean, net.constant(net.rng.normal(size=(8, 5)))], 5))


def wide_images(count: int, seed: int = 0) -> np.ndarray:
    """Return images for it, float32."""
    rng = np.random.default_rng(seed)
    means = 2 * rng.normal(size=(count, SHAPE[1], 1, 1))  # else all of them are of one class
    return (means + rng.normal(size=(count, *SHAPE[1:]))).astype(F)
