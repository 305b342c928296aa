"""Choose preset, method and tools for a network, by what they do to its outputs.

One question after the other is decided with the others' answers as they stand. Every answer
quantizes the network twice, each time with one half of the calibration images, and is judged by the
outputs for the other half: the one wins that leaves them nearest to FP32, the least exact output
of the network counting. A simpler answer, which comes first, wins unless another one is
better by ``GAIN_DB`` and by more than the choice of images explains
(:mod:`relay_int8.numerics.judgement`). What is chosen is then done again with all the images.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import numpy as np
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
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.registry import operator_of
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import AUTO, QuantConfig, Tools
from relay_int8.quantization.functions import read_functions
from relay_int8.quantization.refine.equalize import channel_maxima, equalized_by
from relay_int8.quantization.refine.float_tensors import FloatTensors, KnownRunner
from relay_int8.quantization.refine.network import Array, Arrays, NumpyNetwork, Simulation
from relay_int8.quantization.refine.parallel import in_parallel
from relay_int8.quantization.refine.reconstruct import reconstruct
from relay_int8.quantization.refine.thresholds import HISTOGRAMS, tuned_thresholds

GAIN_DB = 0.1
IMAGES = 64  # at most, that constants are made of, in halves
JUDGING_IMAGES = 128  # at most
FEWEST_IMAGES = 16  # whatever a run of them takes
MACS = 10**10  # that a run of the images may take that constants are made of
JUDGING_MACS = 3 * 10**10  # and of all those that answers are judged by
THRESHOLD_IMAGES = 8  # of a half, that ranges are tried on; what is chosen looks at more
LARGEST_K = 2304  # 3 x 3 x 256: wider layers are rounded to nearest until all is chosen
IMAGE_BYTES = 2**28  # that these images may take


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One question, the answer that was picked, and the decibels that each answer reached.

    ``untried`` are the answers that the budget left no time for.
    """

    question: str
    picked: str
    tried: Mapping[str, float]
    untried: tuple[str, ...] = ()

    def __str__(self) -> str:
        tried = ", ".join(f"{answer} {ratio_db:.2f} dB" for answer, ratio_db in self.tried.items())
        untried = f"; no time for {', '.join(self.untried)}" if self.untried else ""
        return f"{self.question}: {self.picked} (on images not seen: {tried}{untried})"


Answers = Mapping[str, QuantConfig]
Run = Callable[[Arrays], Arrays]


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
        Exclusions and the like are kept. Its ``budget`` ends the search before an answer that would
        exceed it, judging by the longest so far; at least one is tried.
    progress
        Called before and after every answer that is tried, with what it is and the seconds that
        are left.
    """
    if config.method != QuantConfig.method or config.tools is not None:
        raise ConfigError(
            f"preset {AUTO} chooses method and tools itself; leave yours out, or take another "
            "preset"
        )
    search = _Search(_Trial(with_batch(mod, 1), data), config.budget, progress)
    chosen = replace(config, preset=QuantConfig.preset, tools=Tools(), budget=None)
    choices = []
    for question, answers in _QUESTIONS.items():
        options = answers(chosen)
        tried = search.tried(question, options)
        picked = _picked(tried)
        chosen = options[picked]
        ratios_db = {name: judgement.ratio_db for name, judgement in tried.items()}
        untried = tuple(name for name in options if name not in tried)
        choices.append(Choice(question=question, picked=picked, tried=ratios_db, untried=untried))
    return chosen, tuple(choices)


class _Search:
    """Answers that were tried, and the seconds that are left for others."""

    def __init__(self, trial: _Trial, budget: float | None, progress: Progress | None) -> None:
        self._trial = trial
        self._budget = np.inf if budget is None else budget
        self._progress = progress
        self._judged: dict[QuantConfig, Judgement] = {}
        self._seconds: list[float] = []
        self._left = sum(MOST_TRIALS.values())
        self._started = time.monotonic()

    def tried(self, question: str, options: Answers) -> dict[str, Judgement]:
        """Return the judgement of each answer that there is time for, one at least."""
        self._left = sum(MOST_TRIALS[later] for later in _from(question))
        tried = {}
        for name, option in options.items():
            if option not in self._judged and self._has_time:
                self._judged[option] = self._judge(f"{question}, {name}", option)
            if option in self._judged:
                tried[name] = self._judged[option]
        return tried

    @property
    def _has_time(self) -> bool:
        """Whether one more trial, as long as the longest, ends within the budget."""
        spent = time.monotonic() - self._started
        return not self._seconds or spent + max(self._seconds) <= self._budget

    def _judge(self, text: str, config: QuantConfig) -> Judgement:
        stage = f"{AUTO}: {text}{self._estimate}"
        self._left = max(self._left - 1, 0)
        began = time.monotonic()
        judgement = self._trial.judged(config, lambda *done: self._report(stage, *done))
        self._seconds.append(time.monotonic() - began)
        return judgement

    @property
    def _estimate(self) -> str:
        """Return the seconds that the search may still take, as a progress line ends."""
        if not self._seconds:
            return ""
        spent = time.monotonic() - self._started
        left = min(self._left * float(np.mean(self._seconds)), max(self._budget - spent, 0))
        return f" ({left:.0f} s left at most)" if left else ""

    def _report(self, stage: str, done: int, total: int) -> None:
        if self._progress:
            self._progress(stage, done, total)


def _from(question: str) -> list[str]:
    questions = list(_QUESTIONS)
    return questions[questions.index(question) :]


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
        name: _with_tools(config, equalization=name)
        for name in ("depthwise", "smooth", "cross-layer")
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


MOST_TRIALS = dict(zip(_QUESTIONS, (2, 2, 1, 3, 2), strict=True))
"""How many answers of each question earlier ones have not tried, at most."""


class _Trial:
    """A network with two halves of images, each judged with what was made of the other.

    Judging takes a run, making constants several: where the network is large, images beside those
    halves are judged too.
    """

    def __init__(self, mod: IRModule, data: Iterable[Image]) -> None:
        work = max(sum(operator_of(group).macs(group) for group in find_groups(mod["main"])), 1)
        judging = list(islice(data, _count(JUDGING_IMAGES, JUDGING_MACS // work)))
        if not judging:
            raise CalibrationError("no image found; preset auto needs calibration images")
        size = sum(array.nbytes for array in judging[0].values())
        judging = judging[: max(2, IMAGE_BYTES // max(size, 1))]
        fitting = _count(IMAGES, MACS // work)
        halves = _halves(judging[:fitting])
        others = _halves(judging[fitting:])
        helds = [half + other for half, other in zip(halves[::-1], others, strict=True)]
        reference = NumpyNetwork(mod)
        self._halves = [
            (_Fit(mod, fit), [(chunk, reference.run(chunk)) for chunk in reference.images(held)])
            for fit, held in zip(halves, helds, strict=True)
        ]

    def judged(self, config: QuantConfig, report: Callable[[int, int], None]) -> Judgement:
        """Return how near the outputs are to FP32, on images not seen."""
        report(0, 2)
        ready = [(fit.calibrated(config), held) for fit, held in self._halves]
        report(1, 2)
        pairs = [pair for half in in_parallel(_outputs, ready) for pair in half]
        report(2, 2)
        return Judgement.of(pairs)


def _count(most: int, affordable: int) -> int:
    return max(FEWEST_IMAGES, min(most, affordable))


def _halves(images: list[Image]) -> tuple[list[Image], list[Image]]:
    return (images[::2], images[1::2]) if len(images) > 1 else (images, images)


def _outputs(half: tuple[Callable[[], Run], list[tuple[Arrays, Arrays]]]) -> list[Any]:
    """Return the outputs of FP32 and of the network that is made, for each stack of images."""
    made, held = half
    results = in_parallel(made(), [chunk for chunk, _ in held])
    return list(zip([wanted for _, wanted in held], results, strict=True))


class _Fit:
    """A network quantized with some images."""

    def __init__(self, mod: IRModule, images: list[Image]) -> None:
        self._mod = mod
        self._images = images
        self._equalized = lru_cache(maxsize=None)(self._equalize)
        self._floats = lru_cache(maxsize=1)(self._float_tensors)
        self._calibrated = lru_cache(maxsize=None)(self._calibrate)

    def calibrated(self, config: QuantConfig) -> Callable[[], Run]:
        """Return what makes the network quantized as ``config`` wants it, all by NumPy."""
        plan, table = self._calibrated(replace(config, tools=_of_ranges(config.applied)))
        params = {name: table.entries[name].qparams() for name in plan.calibrated}
        simulation = Simulation(plan=plan, params=params)
        tools = config.applied
        floats = self._floats(tools.equalization, plan.additions)
        if tools.correction == "analytic":
            simulation = replace(simulation, biases=self._corrected(tools, plan, params, table))

        def _made() -> Run:
            made = simulation
            if tools.correction == "empirical":
                made = self._reconstructed(simulation, floats, tools.rounding)
            return lambda images: floats.network.run(images, made)

        return _made

    def _corrected(
        self, tools: Tools, plan: Plan, params: Mapping[str, QParams], table: CalibrationTable
    ) -> dict[str, Array]:
        correct = CorrectBias(plan, params, table.means)
        corrected = tvm.transform.Sequential([correct])(self._equalized(tools.equalization))
        layers = linear_layers(corrected["main"], plan)
        return {layer.name: layer.bias for layer in layers if layer.bias is not None}

    def _reconstructed(
        self, simulation: Simulation, floats: FloatTensors, rounding: str
    ) -> Simulation:
        constants = reconstruct(
            floats.network,
            simulation,
            self._images,
            rounding=rounding,
            known=floats.kept,
            largest_k=LARGEST_K,
        )
        return replace(simulation, weights=constants.weights, biases=constants.biases)

    def _float_tensors(self, equalization: Any, additions: tuple[str, ...]) -> FloatTensors:
        network = NumpyNetwork(self._equalized(equalization), additions)
        return FloatTensors(network, self._images)

    def _equalize(self, how: Any) -> IRModule:
        if how == "none":
            return self._mod
        return equalized_by(self._mod, self._maxima, how, len(self._images))

    @cached_property
    def _maxima(self) -> dict[str, Array]:
        return channel_maxima(NumpyNetwork(self._mod), self._images)

    def _calibrate(self, config: QuantConfig) -> tuple[Plan, CalibrationTable]:
        mod = self._equalized(config.applied.equalization)
        plan = annotate(mod, config)
        floats = self._floats(config.applied.equalization, plan.additions)
        schemes = {name: plan.tensors[name].scheme for name in plan.calibrated}
        means = averaged_tensors(mod["main"], plan)
        tuned = config.applied.thresholds == "output-error"
        table = calibrate(
            KnownRunner(floats, schemes, means),
            schemes,
            floats,
            method=HISTOGRAMS if tuned else config.method,
            functions=read_functions(mod["main"], plan),
            keep_histograms=tuned,
        )
        if not tuned:
            return plan, table
        return plan, tuned_thresholds(
            floats.network, plan, table, self._images, images=THRESHOLD_IMAGES
        )


def _of_ranges(tools: Tools) -> Tools:
    """Return the tools without those that ranges do not depend on."""
    kept = asdict(tools) | {"correction": "analytic", "rounding": "nearest"}
    return Tools(**kept)
