"""From a model file to a QDQ ONNX file, in one call."""

from __future__ import annotations

from pathlib import Path

from relay_int8.api.model import load_model
from relay_int8.api.quantize import Quantized, Source, quantize
from relay_int8.argument_types import checked
from relay_int8.calibration.observe import Progress
from relay_int8.data.preprocessing import Preprocessing
from relay_int8.export.qdq import BiasForm
from relay_int8.files import require_outputs
from relay_int8.frontend.options import ImportOptions
from relay_int8.quantization.config import QuantConfig


@checked
def export_model(
    model: str | Path,
    data: Source,
    output: str | Path,
    *,
    imports: ImportOptions | None = None,
    config: QuantConfig | None = None,
    preprocessing: Preprocessing | None = None,
    bias: BiasForm = "int32",
    open_batch: bool = False,
    progress: Progress | None = None,
) -> Quantized:
    """Quantize a model and write it as QDQ ONNX; nothing is compiled for a target.

    Parameters are those of :func:`relay_int8.compile_model`; ``bias`` and ``open_batch`` are those
    of :meth:`relay_int8.Quantized.save_qdq`.

    Examples
    --------
    >>> options = relay_int8.ImportOptions(batch=1)
    >>> data = images.calibration[:20]
    >>> relay_int8.export_model("digits.onnx", data, "qdq.onnx", imports=options)
    <Quantized digits.onnx: <QuantizedModel ...: 11 of 11 layers in integers (...)>>
    >>> relay_int8.load_model("qdq.onnx", options).is_quantized
    True
    """
    imports = imports or ImportOptions()
    require_outputs(output, read=(model, imports.params))
    quantized = quantize(
        load_model(model, imports), data, config, preprocessing=preprocessing, progress=progress
    )
    quantized.save_qdq(output, bias=bias, open_batch=open_batch)
    return quantized
