"""Which layers to leave in float so that a stated accuracy is reached at the least measured time.

From the all-integer network on, the layer goes to float that wins most for its time: noise that its
integers add to the outputs, over the microseconds that the kernels of the new plan take longer,
conversions counted (two neighbours in float need fewer than two layers apart). When the accuracy is
reached, layers go back, the dearest first, where it holds without them. Times are those of kernels
on this computer (``costs.py``); the whole network is timed at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from relay_int8.argument_types import checked
from relay_int8.calibration.observe import Progress
from relay_int8.errors import ConfigError
from relay_int8.graph.plan import Plan
from relay_int8.quantization.mixed_precision.costs import KernelCosts
from relay_int8.quantization.mixed_precision.sensitivity import Fit, Sensitivity, Variants

TRIED = 8  # layers whose plans are looked at in each step, the most promising ones
LEAST_US = 0.1  # least time that a change counts with, so that gain per time stays finite


@checked
@dataclass(frozen=True, kw_only=True)
class Budget:
    """The accuracy to reach on the calibration images; at least one of the two.

    Parameters
    ----------
    snr_db
        Least signal-to-noise ratio of the least exact output.
    agreement
        Least fraction of images with the same largest output as FP32.
    """

    snr_db: float | None = None
    agreement: float | None = None

    def __post_init__(self) -> None:
        if self.snr_db is None and self.agreement is None:
            raise ConfigError("no accuracy is asked for; say a least SNR or a least agreement")
        if self.snr_db is not None and math.isnan(self.snr_db):
            raise ConfigError(f"SNR {self.snr_db} dB asked for; give a number of decibels")
        if self.agreement is not None and not 0 <= self.agreement <= 1:
            raise ConfigError(f"agreement {self.agreement} asked for; it is a fraction, 0 to 1")

    def holds(self, fit: Fit) -> bool:
        """Whether ``fit`` is good enough."""
        return not (
            (self.snr_db is not None and fit.snr_db < self.snr_db)
            or (self.agreement is not None and fit.agreement < self.agreement)
        )


@dataclass(frozen=True, kw_only=True)
class MixedPlan:
    """A plan, what it reaches, and what its kernels take.

    Parameters
    ----------
    plan
        The plan, its float layers excluded.
    floats
        Those that the search left in float, in the order in which they were.
    fit
        On the calibration images, in NumPy.
    time_us
        Sum of the kernels' median times.
    holds
        Whether the budget is reached; otherwise every layer that helps is in float.
    """

    plan: Plan
    floats: tuple[str, ...]
    fit: Fit
    time_us: float
    holds: bool


def search(
    variants: Variants,
    sensitivity: Sensitivity,
    costs: KernelCosts,
    budget: Budget,
    progress: Progress | None = None,
) -> MixedPlan:
    """Return the plan.

    Parameters
    ----------
    variants, sensitivity
        The quantized model, and what each layer's integers cost.
    costs
        Of its kernels.
    budget
        What has to be reached.
    progress
        Called after every step.
    """
    whole = _noise(sensitivity.whole)
    noise = {layer.name: _noise(layer.without) for layer in sensitivity.layers}
    gain = {name: whole - left if left < whole else 0.0 for name, left in noise.items()}
    floats: list[str] = []
    current = _mixed(variants, costs, budget, floats)
    while not current.holds:
        rest = sorted((n for n in gain if n not in floats), key=lambda n: gain[n], reverse=True)
        if not rest:
            break
        floats.append(_best(variants, costs, current, floats, rest[:TRIED], gain))
        current = _mixed(variants, costs, budget, floats)
        if progress:
            progress("mixed precision", len(floats), len(gain))
    return _pruned(variants, costs, budget, current)


def _best(
    variants: Variants,
    costs: KernelCosts,
    current: MixedPlan,
    floats: Sequence[str],
    rest: Sequence[str],
    gain: dict[str, float],
) -> str:
    """Return the layer that wins most noise for a microsecond."""

    def _worth(name: str) -> float:
        plan = variants.plan([*floats, name])
        added_us = costs.of(variants.quantized, plan) - current.time_us
        return gain[name] / max(added_us, LEAST_US)

    return max(rest, key=_worth)


def _pruned(variants: Variants, costs: KernelCosts, budget: Budget, mixed: MixedPlan) -> MixedPlan:
    """Return ``mixed`` with every layer back in integers that the budget does not need."""
    if not mixed.holds:
        return mixed

    def _others(name: str) -> list[str]:
        return [other for other in mixed.floats if other != name]

    def _left_us(name: str) -> float:
        return costs.of(variants.quantized, variants.plan(_others(name)))

    for name in sorted(mixed.floats, key=_left_us):
        without = _mixed(variants, costs, budget, _others(name))
        if without.holds and without.time_us <= mixed.time_us:
            mixed = without
    return mixed


def _mixed(
    variants: Variants, costs: KernelCosts, budget: Budget, floats: Iterable[str]
) -> MixedPlan:
    floats = tuple(floats)
    plan = variants.plan(floats)
    fit = variants.fit(plan)
    return MixedPlan(
        plan=plan,
        floats=floats,
        fit=fit,
        time_us=costs.of(variants.quantized, plan),
        holds=budget.holds(fit),
    )


def _noise(fit: Fit) -> float:
    return float(10 ** (-fit.snr_db / 10))
