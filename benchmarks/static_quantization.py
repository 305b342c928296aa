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


class ImageReader(quantization.CalibrationDataReader):  # type: ignore[misc]
    """Hands over images (or batches), each once, as the input ``name``."""

    def __init__(self, name: str, images: Iterable[np.ndarray]) -> None:
        self._name = name
        self._images: Iterator[np.ndarray] = iter(images)

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the next image; None says that there are no more."""
        image = next(self._images, None)
        return None if image is None else {self._name: image}


def write_qdq(
    model: Path,
    output: Path,
    images: ImageReader,
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
            images,
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=activations,
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
            calibrate_method=method,
            extra_options=options,
        )
