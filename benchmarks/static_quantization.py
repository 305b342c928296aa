"""ONNX Runtime's static quantization to Q/DQ pairs: weights s8 per channel, ranges of images."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process


class InputReader(quantization.CalibrationDataReader):  # type: ignore[misc]
    """Hands over what the network reads, arrays by the names of its inputs, each once."""

    def __init__(self, inputs: Iterable[dict[str, np.ndarray]]) -> None:
        self._inputs: Iterator[dict[str, np.ndarray]] = iter(inputs)

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the next; None says that there are no more."""
        return next(self._inputs, None)


class ImageReader(InputReader):
    """Hands over images (or batches), each once, as the input ``name``."""

    def __init__(self, name: str, images: Iterable[np.ndarray]) -> None:
        super().__init__({name: image} for image in images)


def write_qdq(
    model: Path,
    output: Path,
    inputs: InputReader,
    activations: quantization.QuantType,
    options: dict[str, Any] | None = None,
    method: quantization.CalibrationMethod = quantization.CalibrationMethod.MinMax,
) -> None:
    """Write the network with Q/DQ pairs, ranges by ``method``.

    ``options`` are ``extra_options`` of ``quantize_static``.
    """
    logging.getLogger().setLevel(logging.ERROR)  # it advises to do what is done here
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
        quantization.quantize_static(
            str(prepared),
            str(output),
            inputs,
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=activations,
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
            calibrate_method=method,
            extra_options=options,
        )
