"""Which layers cost accuracy, and a plan that keeps a stated one at the least measured time."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from relay_int8 import finite_json
from relay_int8.api.model import Model, data_inputs
from relay_int8.argument_types import checked
from relay_int8.calibration.observe import Progress
from relay_int8.compiler.kernel_library import sharing_kernels
from relay_int8.data.dataset import Dataset
from relay_int8.data.images import open_images
from relay_int8.data.preprocessing import Preprocessing
from relay_int8.data.sources import Batches
from relay_int8.errors import ConfigError
from relay_int8.files import write_atomic
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.mixed_precision.choice import Budget, MixedPlan
from relay_int8.quantization.mixed_precision.costs import measure_costs, run_times_ms
from relay_int8.quantization.mixed_precision.sensitivity import (
    Fit,
    Sensitivity,
    Variants,
    measure_sensitivity,
)
from relay_int8.quantization.mixed_precision.verified import verified_plan
from relay_int8.quantization.plan_file import save_plan
from relay_int8.quantization.quantize import quantize
from relay_int8.quantization.quantized_model import QuantizedModel
from relay_int8.quantization.refine.programs import sharing_programs
from schedules.targets import native_target


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A plan that was built: its model, its fit, and times of whole networks, taking turns.

    ``latency_ms``: of "int8" (no layer left in float), "mixed" and "float32".
    """

    mixed: MixedPlan
    model: QuantizedModel
    fit: Fit
    holds: bool
    latency_ms: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class LayerAnalysis:
    """Every layer's sensitivity, and the verified plan where a budget was given."""

    sensitivity: Sensitivity
    verified: Verified | None = None

    def to_json(self) -> str:
        """Return sensitivities and plan as JSON; an infinite ratio is written as "inf"."""
        plan = None
        if self.verified is not None:
            plan = {
                "floats": self.verified.mixed.floats,
                "fit": asdict(self.verified.fit),
                "holds": self.verified.holds,
                "latency_ms": self.verified.latency_ms,
            }
        return finite_json.dumps({"sensitivity": asdict(self.sensitivity), "plan": plan})

    def save(self, path: str | Path) -> None:
        """Write the sensitivities as JSON, as :func:`relay_int8.render_report` takes them."""
        write_atomic(Path(path), sensitivity_json(self.sensitivity).encode())

    def save_plan(self, path: str | Path) -> None:
        """Write the verified plan as JSON, as :func:`relay_int8.quantize` takes it.

        Raises
        ------
        ConfigError
            If there is none, since no budget was given.
        """
        if self.verified is None:
            raise ConfigError("no plan was looked for: analyze the layers with a budget")
        model = self.verified.model
        save_plan(replace(model.plan, model_hash=model.model_hash), path)


@checked
@sharing_kernels()
@sharing_programs()
def analyze_layers(
    model: Model,
    data: str | Path | Batches | Dataset,
    *,
    config: QuantConfig | None = None,
    budget: Budget | None = None,
    preprocessing: Preprocessing | None = None,
    samples: int = 16,
    progress: Progress | None = None,
) -> LayerAnalysis:
    """Quantize a network, measure every layer's sensitivity, and find the plan for a budget.

    Parameters
    ----------
    model
        A float network, of batch 1.
    data, preprocessing
        Calibration images, as :func:`relay_int8.compile_model` takes them.
    config
        Preset, method, exclusions; ``QuantConfig()`` if None.
    budget
        The accuracy to reach at the least time measured on this computer; None: no plan.
    samples
        Calibration images to measure on.
    progress
        Called as the stages go on.
    """
    mod = model.module
    if not isinstance(data, Dataset):
        data = open_images(data_inputs(mod), data, preprocessing)
    quantized = quantize(mod, data, config, progress=progress)
    variants = Variants(quantized, data, samples)
    sensitivity = measure_sensitivity(variants, progress)
    if budget is None:
        return LayerAnalysis(sensitivity=sensitivity)
    target = native_target()
    costs = measure_costs(quantized, target)
    mixed, made, fit = verified_plan(mod, data, variants, sensitivity, costs, budget, progress)
    times = run_times_ms([quantized.mod, made.mod, quantized.reference], target)
    verified = Verified(
        mixed=mixed,
        model=made,
        fit=fit,
        holds=budget.holds(fit),
        latency_ms=dict(zip(("int8", "mixed", "float32"), times, strict=True)),
    )
    return LayerAnalysis(sensitivity=sensitivity, verified=verified)


def sensitivity_json(sensitivity: Sensitivity) -> str:
    """Return the sensitivities as JSON; an infinite ratio is written as "inf"."""
    return finite_json.dumps(asdict(sensitivity))
