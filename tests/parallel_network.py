"""A network whose kernels are large enough for several threads, as an artifact."""

from pathlib import Path

import numpy as np
import onnx

import relay_int8
from tests.onnx_writer import OnnxWriter

SHAPE = (1, 16, 24, 24)


def parallel_artifact(folder: Path, **options: object) -> Path:
    """Write x -> conv, relu -> conv, relu -> mean -> dense for two threads; return the artifact."""
    net = OnnxWriter(SHAPE, seed=5)
    first = net.constant(net.rng.normal(size=(64, 16, 3, 3)))
    second = net.constant(net.rng.normal(size=(64, 64, 3, 3)))
    x = net.node("Relu", [net.node("Conv", ["x", first], 64)], 64)
    x = net.node("Relu", [net.node("Conv", [x, second], 64)], 64)
    mean = net.node("Flatten", [net.node("GlobalAveragePool", [x], 64)], 64)
    weights = net.constant(net.rng.normal(size=(64, 10)))
    onnx.save(net.finish(net.node("MatMul", [mean, weights], 10)), folder / "net.onnx")
    images = np.random.default_rng(0).normal(size=SHAPE).astype("float32")
    relay_int8.compile_model(
        folder / "net.onnx",
        [images],
        folder / "net.ri8",
        samples=0,
        options=relay_int8.BuildOptions(**{"threads": 2, **options}),
    )
    return folder / "net.ri8"
