"""From a model file to a QDQ ONNX file, in one call."""

from __future__ import annotations

from pathlib import Path

from relay_int8.calibration.observe import Progress
from relay_int8.calibration.table import CalibrationTable
from relay_int8.data.dataset import Batches
from relay_int8.data.images import open_images
from relay_int8.data.preprocessing import Preprocessing
from relay_int8.export.qdq import BiasForm, export_qdq
from relay_int8.files import require_outputs, write_atomic
from relay_int8.frontend.model import import_model
from relay_int8.frontend.options import Shapes
from relay_int8.graph import dataflow
from relay_int8.graph.interface import open_inputs
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.quantize import QuantizedModel, quantize


def export_model(
    model: str | Path,
    data: str | Path | Batches | CalibrationTable,
    output: str | Path,
    *,
    config: QuantConfig | None = None,
    batch: int | None = None,
    inputs: Shapes | None = None,
    params: str | Path | None = None,
    preprocessing: Preprocessing | None = None,
    bias: BiasForm = "int32",
    open_batch: bool = False,
    progress: Progress | None = None,
) -> QuantizedModel:
    """Quantize a model and write it as QDQ ONNX; nothing is compiled for a target.

    Parameters are those of :func:`relay_int8.compile_model`; ``bias`` and ``open_batch`` are those
    of :func:`relay_int8.export.qdq.export_qdq`.
    """
    require_outputs(output, read=(model, params))
    mod = import_model(model, batch=batch, inputs=inputs, params=params)
    if not isinstance(data, CalibrationTable):
        data = open_images(open_inputs(mod), data, preprocessing)
    quantized = quantize(mod, data, config, progress=progress)
    write_qdq(quantized, output, bias=bias, open_batch=open_batch)
    return quantized


def write_qdq(
    quantized: QuantizedModel,
    path: str | Path,
    *,
    bias: BiasForm = "int32",
    open_batch: bool = False,
) -> None:
    """Write a quantized model as QDQ ONNX, whole or not at all."""
    outputs = [str(var.name) for var in dataflow.results(quantized.reference["main"])]
    model = export_qdq(quantized.mod, outputs, bias=bias, open_batch=open_batch)
    write_atomic(Path(path), model.SerializeToString())
