"""A plan that holds in the network that is quantized by it, not in the search alone.

The search keeps factors of channels, weights and biases of the all-integer network. Quantized anew
with layers in float they are others: where those miss the budget, more is asked of the search.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tvm import IRModule

from relay_int8.calibration.observe import Progress
from relay_int8.data.dataset import Dataset
from relay_int8.quantization.mixed_precision.choice import Budget, MixedPlan, search
from relay_int8.quantization.mixed_precision.costs import KernelCosts
from relay_int8.quantization.mixed_precision.sensitivity import Fit, Sensitivity, Variants
from relay_int8.quantization.quantize import planned_with_floats, quantize
from relay_int8.quantization.quantized_model import QuantizedModel

STEP_DB = 0.5  # what more is asked of the search where a plan misses its budget; doubled each time


def verified_plan(
    mod: IRModule,
    data: Dataset,
    variants: Variants,
    sensitivity: Sensitivity,
    costs: KernelCosts,
    budget: Budget,
    progress: Progress | None = None,
) -> tuple[MixedPlan, QuantizedModel, Fit]:
    """Return the plan, the network quantized by it, and its fit on the images of ``variants``.

    The budget is missed only where no plan of the search reaches it.

    Parameters
    ----------
    mod, data
        The float network and its calibration images.
    variants, sensitivity, costs, budget, progress
        As :func:`search` has them.
    """
    asked, step_db = budget, STEP_DB
    while True:
        mixed = search(variants, sensitivity, costs, asked, progress)
        config, _ = planned_with_floats(variants.quantized, mixed.floats)
        model = quantize(mod, data, config)
        fit = Variants(model, data, variants.samples).fit(model.plan)
        if budget.holds(fit) or not mixed.holds or math.isinf(mixed.fit.snr_db):
            return mixed, model, fit
        asked = replace(asked, snr_db=mixed.fit.snr_db + step_db)
        step_db *= 2
