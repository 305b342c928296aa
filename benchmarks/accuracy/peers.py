"""What other tools make of the same network and the same calibration inputs."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import nncf
import onnx
import openvino
from onnxruntime import quantization

from benchmarks.macs import has_attention
from benchmarks.onnxruntime_int8 import run_file
from benchmarks.static_quantization import InputReader, write_qdq
from benchmarks.subject import Inputs

Run = Callable[[Inputs], Inputs]
Quantize = Callable[[Path, Iterable[Inputs]], Run]


def onnxruntime_int8(
    model: Path, inputs: Iterable[Inputs], method: quantization.CalibrationMethod
) -> Run:
    """Return the network of ``quantize_static``: QDQ, weights s8 per channel, activations u8."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "quantized.onnx")
        reader = InputReader(inputs)
        write_qdq(model, output, reader, quantization.QuantType.QUInt8, method=method)
        return run_file(output)


def onnxruntime_minmax(model: Path, inputs: Iterable[Inputs]) -> Run:
    """Return ONNX Runtime's network with ranges from minimum and maximum."""
    return onnxruntime_int8(model, inputs, quantization.CalibrationMethod.MinMax)


def onnxruntime_entropy(model: Path, inputs: Iterable[Inputs]) -> Run:
    """Return ONNX Runtime's network with ranges by its entropy search."""
    return onnxruntime_int8(model, inputs, quantization.CalibrationMethod.Entropy)


def nncf_mixed(model: Path, inputs: Iterable[Inputs]) -> Run:
    """Return the network of ``nncf.quantize``, preset MIXED, on OpenVINO.

    Where there is attention it is told so. What it leaves in float is float32, also where OpenVINO
    would take bfloat16.
    """
    nncf.set_log_level(logging.ERROR)
    stack = list(inputs)
    quantized = nncf.quantize(
        openvino.Core().read_model(model),
        nncf.Dataset(stack),
        preset=nncf.QuantizationPreset.MIXED,
        model_type=nncf.ModelType.TRANSFORMER if has_attention(onnx.load(model)) else None,
        subset_size=len(stack),
    )
    options = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(quantized, "CPU", options)

    def _run(inputs: Inputs) -> Inputs:
        found = compiled(inputs)
        return {str(place): found[output].copy() for place, output in enumerate(compiled.outputs)}

    return _run


PEERS: Mapping[str, Quantize] = {
    "ONNX Runtime MinMax": onnxruntime_minmax,
    "ONNX Runtime Entropy": onnxruntime_entropy,
    "NNCF": nncf_mixed,
}
"""Other tools, with their defaults."""
