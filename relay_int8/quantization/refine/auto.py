"""Choose preset, method and tools for a network, by what they do to its outputs.

The search begins with the default. One question after the other is decided with the others'
answers as they stand. Every answer quantizes the network twice, each time with one half of the
calibration images, and is judged by the outputs for the other half: the one wins that leaves them
nearest to FP32, the least exact output of the network counting. A simpler answer, which comes
first, wins unless another one is better by ``GAIN_DB`` and by more than the choice of images
explains (:mod:`relay_int8.numerics.judgement`); one that is ``BEHIND_DB`` behind after the first
half is not tried on the second. In the end all that was chosen is held against the default in the
same way, and is then done again with all the images.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from tvm import IRModule

from relay_int8.calibration.calibrate import calibrate
from relay_int8.calibration.methods.base import Function
from relay_int8.calibration.observe import Progress
from relay_int8.calibration.table import CalibrationTable
from relay_int8.compiler.passes.qdq.correct_bias import corrected_biases
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
from relay_int8.quantization.refine.equalize import Equalized, equalized_by, maxima_of
from relay_int8.quantization.refine.float_tensors import FloatTensors, KnownRunner
from relay_int8.quantization.refine.network import (
    Array,
    Arrays,
    NumpyNetwork,
    Simulation,
    with_rounded,
)
from relay_int8.quantization.refine.parallel import in_parallel
from relay_int8.quantization.refine.reconstruct import reconstruct

GAIN_DB = 0.1
IMAGES = 64  # at most, that constants are made of, in halves
JUDGING_IMAGES = 128  # at most
FEWEST_IMAGES = 16  # whatever a run of them takes
MACS = 10**10  # that a run of the images may take that constants are made of
JUDGING_MACS = 3 * 10**10  # and of all those that answers are judged by
HALVES = 2
BEHIND_DB = 0.5  # and more than chance explains, on the first half of the images
LARGEST_K = 2304  # 3 x 3 x 256: wider layers are rounded to nearest until all is chosen
IMAGE_BYTES = 2**28  # that these images may take
clock = time.monotonic


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One question, the answer that was picked, and the decibels that each answer reached.

    ``halved`` are the answers that were too far behind after half of the images, whose decibels
    these are; ``untried`` are those that the budget left no time for.
    """

    question: str
    picked: str
    tried: Mapping[str, float]
    halved: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()

    def __str__(self) -> str:
        tried = ", ".join(
            f"{answer} {ratio_db:.2f} dB{' on half of them' if answer in self.halved else ''}"
            for answer, ratio_db in self.tried.items()
        )
        untried = f"; no time for {', '.join(self.untried)}" if self.untried else ""
        return f"{self.question}: {self.picked} (on images not seen: {tried}{untried})"


Answers = Mapping[str, QuantConfig]
Halves = tuple[Judgement, ...]
"""An answer's judgement on the first half of the images, and on the second unless it was cut."""
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
        Called before and after every half of the answers that are tried, with what they are and the
        seconds that are left.
    """
    if config.method != QuantConfig.method or config.tools is not None:
        raise ConfigError(
            f"preset {AUTO} chooses method and tools itself; leave yours out, or take another "
            "preset"
        )
    started = clock()
    default = replace(config, preset=QuantConfig.preset, tools=Tools(), budget=None)
    trial = _Trial(with_batch(mod, 1), data, default)
    search = _Search(trial, config.budget, started, progress)
    chosen, choices = default, []
    for question, answers in _QUESTIONS.items():
        options = answers(chosen)
        choice = search.decided(question, options)
        chosen = options[choice.picked]
        choices.append(choice)
    if search.is_behind(chosen, default):
        options = {"the default": default, "all of these": chosen}
        choices.append(search.decided("in the end", options))
        chosen = default
    return chosen, tuple(choices)


class _Search:
    """Answers that were tried, and the seconds that are left for others."""

    def __init__(
        self, trial: _Trial, budget: float | None, started: float, progress: Progress | None
    ) -> None:
        self._trial = trial
        self._budget = np.inf if budget is None else budget
        self._progress = progress
        self._judged: dict[QuantConfig, Halves] = {}
        self._seconds: list[float] = []
        self._left = sum(MOST_TRIALS.values())
        self._started = started

    def decided(self, question: str, options: Answers) -> Choice:
        """Return which answer is picked of those that there is time for, one at least."""
        self._left = sum(MOST_TRIALS[later] for later in _from(question))
        self._try(question, options)
        tried = {name: self._judged[one] for name, one in options.items() if one in self._judged}
        whole = {name: Judgement.joined(one) for name, one in tried.items() if len(one) == HALVES}
        return Choice(
            question=question,
            picked=_picked(whole),
            tried={name: Judgement.joined(one).ratio_db for name, one in tried.items()},
            halved=tuple(name for name in tried if name not in whole),
            untried=tuple(name for name in options if name not in tried),
        )

    def is_behind(self, chosen: QuantConfig, default: QuantConfig) -> bool:
        """Say whether all that was chosen does not gain over the default, where both are judged."""
        if chosen == default or default not in self._judged:
            return False
        found, start = (Judgement.joined(self._judged[one]) for one in (chosen, default))
        return not found.beats(start, GAIN_DB)

    def _try(self, question: str, options: Answers) -> None:
        """Judge the answers that are new, as many at a time as there are halves."""
        new = {name: one for name, one in options.items() if one not in self._judged}
        while new and (affordable := self._affordable):
            judged = (self._judged[one] for one in options.values() if one in self._judged)
            leader = next((halves for halves in judged if len(halves) == HALVES), None)
            count = min(affordable, HALVES) if leader else 1
            batch = dict(islice(new.items(), count))
            new = dict(islice(new.items(), count, None))
            began = clock()
            self._judge(f"{question}, {' and '.join(batch)}", list(batch.values()), leader)
            self._seconds += [(clock() - began) / count] * count

    @property
    def _affordable(self) -> int:
        """How many more trials, as long as the longest, end within the budget."""
        if not self._seconds:
            return 1
        left = max(self._budget - (clock() - self._started), 0)
        return int(min(left / max(*self._seconds, 1e-9), HALVES))

    def _judge(self, text: str, configs: list[QuantConfig], leader: Halves | None) -> None:
        """Judge configurations, on the second half of the images where the first says so."""
        stage, total = f"{AUTO}: {text}{self._estimate}", HALVES * len(configs)
        self._left = max(self._left - len(configs), 0)
        self._report(stage, 0, total)
        if leader is None:
            tasks = [(config, half) for config in configs for half in range(HALVES)]
            self._note(tasks)
            self._report(stage, total, total)
            return
        self._note([(config, 0) for config in configs])
        self._report(stage, len(configs), total)
        first = leader[0]
        promising = [one for one in configs if not first.beats(self._judged[one][0], BEHIND_DB)]
        self._note([(config, 1) for config in promising])
        self._report(stage, total, total)

    def _note(self, tasks: list[tuple[QuantConfig, int]]) -> None:
        for (config, _), judgement in zip(tasks, self._trial.judged(tasks), strict=True):
            self._judged[config] = (*self._judged.get(config, ()), judgement)

    @property
    def _estimate(self) -> str:
        """Return the seconds that the search may still take, as a progress line ends."""
        if not self._seconds:
            return ""
        spent = clock() - self._started
        left = min(self._left * float(np.mean(self._seconds)), max(self._budget - spent, 0))
        return f" ({left:.0f} s left at most)" if left else ""

    def _report(self, stage: str, done: int, total: int) -> None:
        if self._progress:
            self._progress(stage, done, total)


def _from(question: str) -> list[str]:
    questions = list(_QUESTIONS)
    return questions[questions.index(question) :] if question in _QUESTIONS else []


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
    names = ("mse-affine", "max", "percentile", "mse")
    return {name: replace(config, method=name) for name in names}


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
    "equalization": _equalizations,
    "signed tensors": _schemes,
    "ranges": _ranges,
    "weights and biases": _constants,
}
"""Weights last: an answer to the other questions takes a run of the network, choosing weights well
takes many times that, and on the networks that were looked at it never changed the other answers
(docs/decisions.md, 70)."""


MOST_TRIALS = dict(zip(_QUESTIONS, (3, 1, 3, 1), strict=True))
"""How many answers of each question earlier ones have not tried, at most."""


class _Trial:
    """A network with two halves of images, each judged with what was made of the other.

    Judging takes a run, making constants several: where the network is large, images beside those
    halves are judged too.
    """

    def __init__(self, mod: IRModule, data: Iterable[Image], config: QuantConfig) -> None:
        work = max(sum(operator_of(group).macs(group) for group in find_groups(mod["main"])), 1)
        judging = list(islice(data, _count(JUDGING_IMAGES, JUDGING_MACS // work)))
        if not judging:
            raise CalibrationError("no image found; preset auto needs calibration images")
        size = sum(array.nbytes for array in judging[0].values())
        judging = judging[: max(2, IMAGE_BYTES // max(size, 1))]
        fitting = _count(IMAGES, MACS // work)
        additions = annotate(mod, config).additions
        self._fits = [_Fit(mod, half, additions) for half in _halves(judging[:fitting])]
        self._others = _halves(judging[fitting:])
        self._held: dict[int, list[tuple[Arrays, Arrays]]] = {}

    def judged(self, tasks: Sequence[tuple[QuantConfig, int]]) -> list[Judgement]:
        """Return how near outputs are to FP32, on images not seen.

        Parameters
        ----------
        tasks
            Configurations, and by which half of the images each is to be made.
        """
        made = [(self._fits[half].calibrated(config), half) for config, half in tasks]
        ready = [(make, self._held_out(half)) for make, half in made]
        return in_parallel(_judgement, ready)

    def _held_out(self, half: int) -> list[tuple[Arrays, Arrays]]:
        """Return images that are no part of a half, in stacks, and what FP32 gives for them."""
        if half not in self._held:
            floats = self._fits[1 - half].floats
            seen = [(floats.inputs(i), floats.outputs(i)) for i in range(len(floats))]
            stacks = list(floats.network.images(self._others[half]))
            outputs = in_parallel(floats.network.run, stacks)
            self._held[half] = [*seen, *zip(stacks, outputs, strict=True)]
        return self._held[half]


def _count(most: int, affordable: int) -> int:
    return max(FEWEST_IMAGES, min(most, affordable))


def _halves(images: list[Image]) -> tuple[list[Image], list[Image]]:
    return (images[::2], images[1::2]) if len(images) > 1 else (images, images)


def _judgement(task: tuple[Callable[[], Run], list[tuple[Arrays, Arrays]]]) -> Judgement:
    """Return the judgement of the network that is made, on stacks of images."""
    make, held = task
    results = in_parallel(make(), [stack for stack, _ in held])
    return Judgement.of(zip([wanted for _, wanted in held], results, strict=True))


class _Planned(NamedTuple):
    """A plan of the equalized network, what reads its tensors, and these in float."""

    plan: Plan
    functions: Mapping[str, Function]
    means: list[str]
    floats: FloatTensors


class _Fit:
    """A network quantized with some images.

    Parameters
    ----------
    mod
        Normalized float module of batch 1.
    images
        In their order.
    additions
        Those that are layers of their own in the default's plan.
    """

    def __init__(self, mod: IRModule, images: list[Image], additions: frozenset[str]) -> None:
        self._mod = mod
        self._images = images
        self._additions = additions
        self.floats = FloatTensors(NumpyNetwork(mod, additions), images)
        self._equalized = lru_cache(maxsize=None)(self._equalize)
        self._planned = lru_cache(maxsize=None)(self._plan)
        self._calibrated = lru_cache(maxsize=None)(self._calibrate)

    def calibrated(self, config: QuantConfig) -> Callable[[], Run]:
        """Return what makes the network quantized as ``config`` wants it, all by NumPy."""
        tools = config.applied
        ranges = replace(config, tools=_of_ranges(tools))
        planned = self._planned(replace(ranges, method=QuantConfig.method))
        table = self._calibrated(ranges)
        params = {name: table.entries[name].qparams() for name in planned.plan.calibrated}
        simulation = Simulation(plan=planned.plan, params=params)
        network = planned.floats.network
        if tools.correction == "analytic":
            layers = linear_layers(network.mod["main"], planned.plan)
            biases = corrected_biases(layers, planned.plan, params, table.means)
            simulation = replace(simulation, biases=biases)

        def _made() -> Run:
            made = simulation
            if tools.correction == "empirical":
                made = self._reconstructed(simulation, planned.floats, tools.rounding)
            made = with_rounded(network, made)
            return lambda images: network.run(images, made)

        return _made

    def _reconstructed(
        self, simulation: Simulation, floats: FloatTensors, rounding: str
    ) -> Simulation:
        constants = reconstruct(
            floats.network,
            simulation,
            self._images,
            rounding=rounding,
            floats=floats,
            largest_k=LARGEST_K,
        )
        return replace(simulation, weights=constants.weights, biases=constants.biases)

    def _plan(self, config: QuantConfig) -> _Planned:
        equalized = self._equalized(config.applied.equalization)
        func = equalized.mod["main"]
        plan = annotate(equalized.mod, config)
        network = NumpyNetwork(equalized.mod, plan.additions)
        return _Planned(
            plan=plan,
            functions=read_functions(func, plan),
            means=averaged_tensors(func, plan),
            floats=(
                self.floats.scaled(network, equalized.factors)
                if plan.additions == self._additions
                else FloatTensors(network, self._images)
            ),
        )

    def _equalize(self, how: Any) -> Equalized:
        return equalized_by(self._mod, self._maxima, how, len(self._images))

    @cached_property
    def _maxima(self) -> dict[str, Array]:
        stacks = (self.floats.tensors(number) for number in range(len(self.floats)))
        return maxima_of(self.floats.network, stacks)

    def _calibrate(self, config: QuantConfig) -> CalibrationTable:
        planned = self._planned(replace(config, method=QuantConfig.method))
        schemes = {name: planned.plan.tensors[name].scheme for name in planned.plan.calibrated}
        return calibrate(
            KnownRunner(planned.floats, schemes, planned.means),
            schemes,
            planned.floats,
            method=config.method,
            functions=planned.functions,
        )


def _of_ranges(tools: Tools) -> Tools:
    """Return the tools without those that ranges do not depend on."""
    kept = asdict(tools) | {"correction": "analytic", "rounding": "nearest"}
    return Tools(**kept)
