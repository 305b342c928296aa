"""Choose preset, method and tools for a network, by what they do to its outputs.

Of the calibration images every fourth is held out. One question after the other is decided with the
others' answers as they stand: every answer quantizes the network with the images that are left, and
the one wins that leaves the outputs for the held-out images nearest to FP32, the least exact output
of the network counting. A simpler answer, which comes first, wins unless another one is
better by ``GAIN_DB``. What is chosen is then done again with all the images.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any

import tvm
from tvm import IRModule

from relay_int8.analysis.accuracy import least_snr_db
from relay_int8.analysis.capability import macs
from relay_int8.analysis.groups import find_groups
from relay_int8.annotate import annotate
from relay_int8.batch import with_batch
from relay_int8.calibration.calibrate import calibrate
from relay_int8.calibration.observe import Image, Progress
from relay_int8.calibration.table import CalibrationTable
from relay_int8.config import AUTO, QuantConfig, Tools
from relay_int8.errors import CalibrationError, ConfigError
from relay_int8.passes.correct_bias import CorrectBias, averaged_tensors, linear_layers
from relay_int8.plan import Plan
from relay_int8.refine.equalize import equalize
from relay_int8.refine.network import NumpyNetwork, Simulation
from relay_int8.refine.reconstruct import reconstruct
from relay_int8.refine.runner import StackRunner, Stacks
from relay_int8.refine.thresholds import HISTOGRAMS, tuned_thresholds

GAIN_DB = 0.1
HELD_OUT = 4  # one image in so many
IMAGES = 64  # at most, held-out ones counted
FEWEST = 16
MACS = 10**11  # that one run of the images may take, where they are more than the fewest
IMAGE_BYTES = 2**28  # that these images may take


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One question, the answer that was picked, and the decibels that each answer reached."""

    question: str
    picked: str
    tried: Mapping[str, float]

    def __str__(self) -> str:
        tried = ", ".join(f"{answer} {ratio_db:.2f} dB" for answer, ratio_db in self.tried.items())
        return f"{self.question}: {self.picked} (held-out images: {tried})"


Answers = Mapping[str, QuantConfig]


def choose_config(
    mod: IRModule,
    data: Iterable[Image],
    config: QuantConfig,
    progress: Progress | None = None,
) -> tuple[QuantConfig, tuple[Choice, ...]]:
    """Return what ``preset="auto"`` stands for with this network and these images.

    Parameters
    ----------
    mod
        Normalized float module.
    data
        Calibration images, of which at most ``IMAGES`` are looked at.
    config
        Exclusions and the like are kept.
    progress
        Called after every answer that was tried.
    """
    if config.method != QuantConfig.method or config.tools is not None:
        raise ConfigError(
            f"preset {AUTO} chooses method and tools itself; leave yours out, or take another "
            "preset"
        )
    ratio_db = lru_cache(maxsize=None)(_Trial(with_batch(mod, 1), data).ratio_db)
    chosen = replace(config, preset="int8", tools=Tools(), method="max")
    choices = []
    for done, (question, answers) in enumerate(_QUESTIONS.items()):
        options = answers(chosen)
        tried = {name: ratio_db(option) for name, option in options.items()}
        picked = _picked(tried)
        chosen = options[picked]
        choices.append(Choice(question=question, picked=picked, tried=tried))
        if progress:
            progress(AUTO, done + 1, len(_QUESTIONS))
    return chosen, tuple(choices)


def _picked(tried: Mapping[str, float]) -> str:
    """Return the best answer, the first one where no other is better by ``GAIN_DB``."""
    first = next(iter(tried))
    best = max(tried, key=lambda name: tried[name])
    return best if tried[best] > tried[first] + GAIN_DB else first


def _with_tools(config: QuantConfig, **settings: Any) -> QuantConfig:
    return replace(config, tools=replace(config.applied, **settings))


def _equalizations(config: QuantConfig) -> Answers:
    return {
        name: _with_tools(config, equalization=name) for name in ("none", "smooth", "cross-layer")
    }


def _schemes(config: QuantConfig) -> Answers:
    return {name: replace(config, preset=name) for name in ("int8", "int8-asymmetric")}


def _ranges(config: QuantConfig) -> Answers:
    methods = {name: replace(config, method=name) for name in ("max", "mse")}
    return {**methods, "output-error": _with_tools(config, thresholds="output-error")}


def _constants(config: QuantConfig) -> Answers:
    if not config.bias_correction:
        return {"as they are": config}
    return {
        "analytic correction": config,
        "empirical correction": _with_tools(config, correction="empirical"),
        "empirical correction, weights by descent": _with_tools(
            config, correction="empirical", rounding="descent"
        ),
    }


_QUESTIONS = {
    "weights and biases": _constants,
    "equalization": _equalizations,
    "signed tensors": _schemes,
    "ranges": _ranges,
}
"""Weights first: what rounding them well makes up for is no reason to choose anything else by."""


class _Trial:
    """A network with images to fit to and images to judge by."""

    def __init__(self, mod: IRModule, data: Iterable[Image]) -> None:
        self._mod = mod
        work = sum(map(macs, find_groups(mod["main"])))
        images = list(islice(data, max(FEWEST, min(IMAGES, MACS // max(work, 1)))))
        size = sum(array.nbytes for array in images[0].values()) if images else 0
        if not images:
            raise CalibrationError("no image found; preset auto needs calibration images")
        images = images[: max(HELD_OUT, IMAGE_BYTES // max(size, 1))]
        few = len(images) < 2 * HELD_OUT
        self._fit = [image for i, image in enumerate(images) if few or i % HELD_OUT]
        held = [image for i, image in enumerate(images) if few or i % HELD_OUT == 0]
        reference = NumpyNetwork(mod)
        self._held = [(chunk, reference.run(chunk)) for chunk in reference.images(held)]
        self._equalized = lru_cache(maxsize=None)(self._equalize)
        self._calibrated = lru_cache(maxsize=1)(self._calibrate)

    def ratio_db(self, config: QuantConfig) -> float:
        """Return the signal-to-noise ratio of the least exact output, held-out images only."""
        simulation = self._simulation(config)
        network = self._network(config, simulation.plan)
        return least_snr_db(
            (wanted, network.run(chunk, simulation)) for chunk, wanted in self._held
        )

    def _simulation(self, config: QuantConfig) -> Simulation:
        plan, table = self._calibrated(replace(config, tools=_of_ranges(config.applied)))
        params = {name: table.entries[name].qparams() for name in plan.calibrated}
        simulation = Simulation(plan=plan, params=params)
        tools = config.applied
        if tools.correction == "none":
            return simulation
        if tools.correction == "analytic":
            mod = self._equalized(tools.equalization)
            correct = CorrectBias(plan, params, table.means)
            corrected = tvm.transform.Sequential([correct])(mod)
            layers = linear_layers(corrected["main"], plan)
            biases = {layer.name: layer.bias for layer in layers if layer.bias is not None}
            return replace(simulation, biases=biases)
        network = self._network(config, plan)
        found = reconstruct(network, simulation, self._fit, rounding=tools.rounding)
        return replace(simulation, weights=found.weights, biases=found.biases)

    def _network(self, config: QuantConfig, plan: Plan) -> NumpyNetwork:
        return NumpyNetwork(self._equalized(config.applied.equalization), plan.additions)

    def _equalize(self, how: Any) -> IRModule:
        return equalize(self._mod, self._fit, how)

    def _calibrate(self, config: QuantConfig) -> tuple[Plan, CalibrationTable]:
        mod = self._equalized(config.applied.equalization)
        plan = annotate(mod, config)
        network = self._network(config, plan)
        schemes = {name: plan.tensors[name].scheme for name in plan.calibrated}
        means = averaged_tensors(mod["main"], plan)
        tuned = config.applied.thresholds == "output-error"
        table = calibrate(
            StackRunner(network, schemes, means),
            schemes,
            Stacks(network, self._fit),
            method=HISTOGRAMS if tuned else config.method,
            keep_histograms=tuned,
        )
        return plan, tuned_thresholds(network, plan, table, self._fit) if tuned else table


def _of_ranges(tools: Tools) -> Tools:
    """Return the tools without those that ranges do not depend on."""
    kept = asdict(tools) | {"correction": "analytic", "rounding": "nearest"}
    return Tools(**kept)
