"""What quantizing returns: a network in integers, and all that was decided on the way."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tvm import IRModule

from relay_int8.calibration.table import CalibrationTable
from relay_int8.graph.declined import Declined
from relay_int8.graph.plan import Plan
from relay_int8.messages import DIGITS
from relay_int8.numerics.qparams import QParams
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.metric import MetricScores
from relay_int8.quantization.refine.auto import Choice


@dataclass(frozen=True, kw_only=True)
class QuantizedModel:
    """A network in integers, for every target alike.

    Parameters
    ----------
    mod
        QDQ module.
    reference
        The normalized float module it was made from, its channels scaled as ``config`` wants it.
    plan, table
        What was decided, and the ranges it rests on.
    digest
        sha256 of the QDQ module with its constants: equal digests, equal integers.
    model_hash
        sha256 of the normalized float module before any tool changed it.
    config
        How it was made; with the preset "auto", what that chose.
    choices
        What "auto" tried and why it chose as it did.
    metric_scores
        What the metric that it went by says of FP32, of the default and of what was chosen.
    declined
        What the rewrites of its canonical form left alone, and why.
    adopted
        Whether scales and zero points are those of the imported model; then nothing of ``config``
        but ``require_int8`` and ``requantize`` had a say.
    table_given
        Whether ranges came with a table, not from images: then the method is the table's.
    """

    mod: IRModule
    reference: IRModule
    plan: Plan
    table: CalibrationTable
    digest: str
    model_hash: str
    config: QuantConfig = field(default_factory=QuantConfig)
    choices: tuple[Choice, ...] = ()
    metric_scores: MetricScores | None = None
    declined: tuple[Declined, ...] = ()
    adopted: bool = False
    table_given: bool = False

    def __repr__(self) -> str:
        """Return what became of the layers, and the digest; the fields have everything."""
        layers = self.plan.layers
        integer = sum(layer.integer for layer in layers)
        how = "adopted" if self.adopted else f"{self.config.preset}, {self.config.method}"
        return (
            f"<QuantizedModel {self.digest[:DIGITS]}: {integer} of {len(layers)} layers in "
            f"integers ({how})>"
        )

    @property
    def params(self) -> dict[str, QParams]:
        """Scale and zero point of every tensor that is quantized, its own or another's."""
        params = self.table.qparams(self.plan.calibrated)
        return {name: params[tensor.like] for name, tensor in self.plan.tensors.items()}

    @property
    def table_hash(self) -> str:
        """The float model that its table is of: where a tool equalized that, not ``model_hash``."""
        return self.table.model_hash or self.model_hash

    @property
    def settings(self) -> dict[str, Any]:
        """The settings it was quantized with, as a report lists them."""
        if self.adopted:
            kept = {"scales": "of the model", "require_int8": self.config.require_int8}
            return kept | {"requantize": self.config.requantize_text}
        tools = asdict(self.config.applied)
        if self.table_given:
            tools["equalization"] = "depthwise" if self.table.factors else "none"
        fields = asdict(self.config) | {
            "tools": [f"{name}: {value}" for name, value in tools.items()],
            "requantize": self.config.requantize_text,
        }
        if self.table_given:
            methods = {item.method.partition(" ")[0]: None for item in self.table.entries.values()}
            fields["method"] = f"of the given table ({', '.join(methods)})"
        del fields["budget"]  # of the search; its choices say what there was no time for
        if self.choices:
            fields["choices"] = [str(choice) for choice in self.choices]
        if self.metric_scores is not None:
            fields["metric"] = str(self.metric_scores)
        return fields
