"""Choose preset, method and tools for a network, by what they do to its outputs.

One question after the other is decided with the others' answers as they stand. Every answer
quantizes the network twice, each time with one half of the calibration images, and is judged by the
outputs for the other half: the one wins that leaves them nearest to FP32, the least exact output
of the network counting. A simpler answer, which comes first, wins unless another one is
better by ``GAIN_DB`` and by more than the choice of images explains
(:mod:`relay_int8.numerics.judgement`). What is chosen is then done again with all the images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any

import tvm
from tvm import IRModule

from relay_int8.calibration.calibrate import calibrate
from relay_int8.calibration.observe import Progress
from relay_int8.calibration.table import CalibrationTable
from relay_int8.compiler.passes.qdq.correct_bias import CorrectBias
from relay_int8.data.dataset import Image
from relay_int8.errors import CalibrationError, ConfigError
from relay_int8.graph.batch import with_batch
from relay_int8.graph.groups import find_groups
from relay_int8.graph.layers import averaged_tensors, linear_layers
from relay_int8.graph.plan import Plan
from relay_int8.numerics.judgement import Judgement
from relay_int8.operators.registry import operator_of
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import AUTO, QuantConfig, Tools
from relay_int8.quantization.functions import read_functions
from relay_int8.quantization.refine.equalize import equalize
from relay_int8.quantization.refine.network import Arrays, NumpyNetwork, Simulation
from relay_int8.quantization.refine.reconstruct import reconstruct
from relay_int8.quantization.refine.runner import StackRunner, Stacks
from relay_int8.quantization.refine.thresholds import HISTOGRAMS, tuned_thresholds

GAIN_DB = 0.1
IMAGES = 64  # at most, of both halves
FEWEST_IMAGES = 16
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
        return f"{self.question}: {self.picked} (on images not seen: {tried})"


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
    judged = lru_cache(maxsize=None)(_Trial(with_batch(mod, 1), data).judged)
    chosen = replace(config, preset=QuantConfig.preset, tools=Tools())
    choices = []
    for done, (question, answers) in enumerate(_QUESTIONS.items()):
        options = answers(chosen)
        tried = {name: judged(option) for name, option in options.items()}
        picked = _picked(tried)
        chosen = options[picked]
        ratios_db = {name: judgement.ratio_db for name, judgement in tried.items()}
        choices.append(Choice(question=question, picked=picked, tried=ratios_db))
        if progress:
            progress(AUTO, done + 1, len(_QUESTIONS))
    return chosen, tuple(choices)


def _picked(tried: Mapping[str, Judgement]) -> str:
    """Return the first answer that no later one beats."""
    leader, *others = tried
    for name in others:
        if tried[name].beats(tried[leader], GAIN_DB):
            leader = name
    return leader


def _with_tools(config: QuantConfig, **settings: Any) -> QuantConfig:
    return replace(config, tools=replace(config.applied, **settings))


def _equalizations(config: QuantConfig) -> Answers:
    return {
        name: _with_tools(config, equalization=name) for name in ("none", "smooth", "cross-layer")
    }


def _schemes(config: QuantConfig) -> Answers:
    names = ("int8",) if config.applied.unify else ("int8-asymmetric", "int8")
    return {name: replace(config, preset=name) for name in names}


def _ranges(config: QuantConfig) -> Answers:
    methods = {name: replace(config, method=name) for name in ("mse-affine", "max", "mse")}
    return {**methods, "output-error": _with_tools(config, thresholds="output-error")}


def _constants(config: QuantConfig) -> Answers:
    if not config.bias_correction:
        return {"as they are": config}
    return {
        "analytic correction": _with_tools(config, correction="analytic", rounding="nearest"),
        "empirical correction": _with_tools(config, correction="empirical", rounding="nearest"),
        "empirical correction, weights by descent": _with_tools(
            config, correction="empirical", rounding="descent"
        ),
    }


_QUESTIONS = {
    "weights and biases": _constants,
    "equalization": _equalizations,
    "signed tensors": _schemes,
    "ranges": _ranges,
    "weights and biases, again": _constants,
}
"""Weights first: what rounding them well makes up for is no reason to choose anything else by. And
last: with equalized channels and better ranges, what weights lose may be what is left."""


class _Trial:
    """A network with two halves of images, each judged with what was made of the other."""

    def __init__(self, mod: IRModule, data: Iterable[Image]) -> None:
        work = sum(operator_of(group).macs(group) for group in find_groups(mod["main"]))
        images = list(islice(data, max(FEWEST_IMAGES, min(IMAGES, MACS // max(work, 1)))))
        if not images:
            raise CalibrationError("no image found; preset auto needs calibration images")
        size = sum(array.nbytes for array in images[0].values())
        images = images[: max(2, IMAGE_BYTES // max(size, 1))]
        halves = (images[::2], images[1::2]) if len(images) > 1 else (images, images)
        reference = NumpyNetwork(mod)
        self._halves = [
            (_Fit(mod, fit), [(chunk, reference.run(chunk)) for chunk in reference.images(held)])
            for fit, held in (halves, halves[::-1])
        ]

    def judged(self, config: QuantConfig) -> Judgement:
        """Return how near the outputs are to FP32, on images not seen."""
        pairs = []
        for fit, held in self._halves:
            run = fit.quantized(config)
            pairs += [(wanted, run(chunk)) for chunk, wanted in held]
        return Judgement.of(pairs)


class _Fit:
    """A network quantized with some images."""

    def __init__(self, mod: IRModule, images: list[Image]) -> None:
        self._mod = mod
        self._images = images
        self._equalized = lru_cache(maxsize=None)(self._equalize)
        self._calibrated = lru_cache(maxsize=1)(self._calibrate)

    def quantized(self, config: QuantConfig) -> Callable[[Arrays], Arrays]:
        """Return what runs the network quantized as ``config`` wants it."""
        simulation = self._simulation(config)
        network = self._network(config, simulation.plan)
        return lambda images: network.run(images, simulation)

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
        found = reconstruct(network, simulation, self._images, rounding=tools.rounding)
        return replace(simulation, weights=found.weights, biases=found.biases)

    def _network(self, config: QuantConfig, plan: Plan) -> NumpyNetwork:
        return NumpyNetwork(self._equalized(config.applied.equalization), plan.additions)

    def _equalize(self, how: Any) -> IRModule:
        return equalize(self._mod, self._images, how)

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
            Stacks(network, self._images),
            method=HISTOGRAMS if tuned else config.method,
            functions=read_functions(mod["main"], plan),
            keep_histograms=tuned,
        )
        return plan, tuned_thresholds(network, plan, table, self._images) if tuned else table


def _of_ranges(tools: Tools) -> Tools:
    """Return the tools without those that ranges do not depend on."""
    kept = asdict(tools) | {"correction": "analytic", "rounding": "nearest"}
    return Tools(**kept)
