"""What other tools make of the same network and the same calibration images."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import nncf
import numpy as np
import onnxruntime
import openvino
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

Array = np.ndarray[Any, Any]
Run = Callable[[dict[str, Array]], dict[str, Array]]
Quantize = Callable[[Path, str, Iterable[Array]], Run]


class _Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, name: str, images: Iterable[Array]) -> None:
        self._name = name
        self._images: Iterator[Array] = iter(images)

    def get_next(self) -> dict[str, Array] | None:
        image = next(self._images, None)
        return None if image is None else {self._name: image}


def onnxruntime_int8(
    model: Path, name: str, images: Iterable[Array], method: quantization.CalibrationMethod
) -> Run:
    """Return the network of ``quantize_static``: QDQ, weights s8 per channel, activations u8."""
    logging.getLogger().setLevel(logging.ERROR)  # it advises to do what is done here
    with tempfile.TemporaryDirectory() as folder:
        prepared, output = Path(folder, "prepared.onnx"), Path(folder, "quantized.onnx")
        quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
        quantization.quantize_static(
            str(prepared),
            str(output),
            _Reader(name, images),
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
            calibrate_method=method,
        )
        session = onnxruntime.InferenceSession(output.read_bytes())
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(None, inputs), strict=True))


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

    def run(inputs: dict[str, Array]) -> dict[str, Array]:
        found = compiled(inputs)
        return {str(place): found[output].copy() for place, output in enumerate(compiled.outputs)}

    return run


PEERS: Mapping[str, Quantize] = {
    "ONNX Runtime MinMax": onnxruntime_minmax,
    "ONNX Runtime Entropy": onnxruntime_entropy,
    "NNCF": nncf_mixed,
}
"""Other tools, with their defaults."""
