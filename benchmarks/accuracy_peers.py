"""What other tools make of the same network and the same calibration images."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import nncf
import numpy as np
import openvino
from onnxruntime import quantization

from benchmarks.onnxruntime_int8 import run_file
from benchmarks.static_quantization import ImageReader, write_qdq

Array = np.ndarray[Any, Any]
Run = Callable[[dict[str, Array]], dict[str, Array]]
Quantize = Callable[[Path, str, Iterable[Array]], Run]


def onnxruntime_int8(
    model: Path, name: str, images: Iterable[Array], method: quantization.CalibrationMethod
) -> Run:
    """Return the network of ``quantize_static``: QDQ, weights s8 per channel, activations u8."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "quantized.onnx")
        reader = ImageReader(name, images)
        write_qdq(model, output, reader, quantization.QuantType.QUInt8, method=method)
        return run_file(output)


def onnxruntime_minmax(model: Path, name: str, images: Iterable[Array]) -> Run:
    """Return ONNX Runtime's network with ranges from minimum and maximum."""
    return onnxruntime_int8(model, name, images, quantization.CalibrationMethod.MinMax)


def onnxruntime_entropy(model: Path, name: str, images: Iterable[Array]) -> Run:
    """Return ONNX Runtime's network with ranges by its entropy search."""
    return onnxruntime_int8(model, name, images, quantization.CalibrationMethod.Entropy)


def nncf_mixed(model: Path, name: str, images: Iterable[Array]) -> Run:
    """Return the network of ``nncf.quantize``, preset MIXED, on OpenVINO."""
    nncf.set_log_level(logging.ERROR)
    stack = list(images)
    quantized = nncf.quantize(
        openvino.Core().read_model(model),
        nncf.Dataset(stack, lambda image: {name: image}),
        preset=nncf.QuantizationPreset.MIXED,
        subset_size=len(stack),
    )
    compiled = openvino.Core().compile_model(quantized, "CPU")

    def _run(inputs: dict[str, Array]) -> dict[str, Array]:
        found = compiled(inputs)
        return {str(place): found[output].copy() for place, output in enumerate(compiled.outputs)}

    return _run


PEERS: Mapping[str, Quantize] = {
    "ONNX Runtime MinMax": onnxruntime_minmax,
    "ONNX Runtime Entropy": onnxruntime_entropy,
    "NNCF": nncf_mixed,
}
"""Other tools, with their defaults."""
