"""What would become of a model file, before it is calibrated or compiled."""

from __future__ import annotations

from pathlib import Path

from relay_int8 import graph
from relay_int8.adopt import adopt
from relay_int8.analysis.hazards import find_hazards
from relay_int8.analysis.report import Report
from relay_int8.annotate import annotate
from relay_int8.config import QuantConfig
from relay_int8.frontend.model import import_model, model_bytes
from relay_int8.frontend.options import Shapes
from relay_int8.pipeline import normalize
from relay_int8.reporting import layers_of


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
    if graph.is_quantized(imported):
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
