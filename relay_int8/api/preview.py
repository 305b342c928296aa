"""What would become of a model file, before it is calibrated or compiled."""

from __future__ import annotations

from pathlib import Path

from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.model import import_model, model_bytes
from relay_int8.frontend.options import Shapes
from relay_int8.graph import dataflow
from relay_int8.quantization.adopt import adopt
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.report.assembly import layers_of
from relay_int8.report.contents import Report
from relay_int8.report.hazards import find_hazards


def preview(
    model: str | Path,
    *,
    preset: str = "int8",
    batch: int | None = None,
    inputs: Shapes | None = None,
    params: str | Path | None = None,
) -> Report:
    """Return what would become of each layer of a model, before any data is seen."""
    imported = import_model(model, batch=batch, inputs=inputs, params=params)
    if dataflow.is_quantized(imported):
        adopted = adopt(imported)
        mod, plan, settings = adopted.reference, adopted.plan, adopted.settings
    else:
        mod = normalize()(imported)
        plan, settings = annotate(mod, QuantConfig(preset=preset)), {"preset": preset}
    return Report(
        model=Path(model).name,
        digest="",
        settings=settings,
        layers=layers_of(plan, {}),
        hazards=find_hazards(mod, plan),
        model_bytes=model_bytes(model, params),
    )
