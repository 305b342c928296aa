"""What would become of a network, before it is calibrated or compiled."""

from __future__ import annotations

from relay_int8.api.model import Model
from relay_int8.argument_types import checked
from relay_int8.compiler.pipeline import normalized
from relay_int8.quantization.adopt import adopt
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.report.assembly import layers_of
from relay_int8.report.contents import Report
from relay_int8.report.hazards import find_hazards, hazards_here


@checked
def preview(model: Model, *, preset: str = QuantConfig.preset) -> Report:
    """Return what would become of each layer of a model, before any data is seen.

    Parameters
    ----------
    model
        What :func:`relay_int8.load_model` gave.
    preset
        As :class:`relay_int8.QuantConfig` has it; a model that is quantized already has its own.

    Examples
    --------
    >>> relay_int8.preview(model)
    <Report of digits.onnx: 11 of 11 layers in integers>
    """
    if model.is_quantized:
        adopted = adopt(model.module)
        mod, plan, settings = adopted.reference, adopted.plan, adopted.settings
        declined = adopted.declined
    else:
        mod, declined = normalized(model.module)
        plan, settings = annotate(mod, QuantConfig(preset=preset)), {"preset": preset}
    return Report(
        model=model.name,
        digest="",
        settings=settings,
        layers=layers_of(plan, {}),
        hazards=hazards_here(find_hazards(mod, plan)),
        declined=declined,
        model_bytes=model.file_bytes,
    )
