"""Which points of a space to measure next.

``xgb``: evolution, the fitness of what was not measured predicted by a model; ``random``; ``grid``:
one after the other. None proposes a point twice, nor one that no block of the GPU can hold, and all
are seeded: the same trials before, the same points next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain, islice
from random import Random

from relay_int8.errors import ConfigError
from relay_int8.tuning.cost_model import CostModel, distance
from relay_int8.tuning.trial_log import Trial
from schedules.space import (
    Choices,
    Choose,
    Kernel,
    Option,
    Options,
    draw,
    estimated_size,
    first,
    point,
    points,
)
from schedules.task import Task
from schedules.template import ScheduleError

POPULATION = 32
GENERATIONS = 4
MUTATED = 0.4  # probability that a choice is made anew
ELITE = 8  # measured points that have descendants
GREEDY = 0.8  # of a batch that is taken by the model's word, the rest at random
ENUMERATED = 2048  # points that are listed, seconds at most; in larger spaces points are drawn
DRAWS = 20  # for each point that is wanted, before a space counts as exhausted
SEARCHES = ("xgb", "random", "grid")


class Search:
    """The search of one kernel's space, which is looked at when points are first asked for.

    Parameters
    ----------
    model
        None to do without.
    seed
        1 or more.
    """

    def __init__(
        self, kernel: Kernel, task: Task, kind: str, model: CostModel | None, seed: int
    ) -> None:
        if kind not in SEARCHES:
            raise ConfigError(f"search {kind!r} is unknown; choose one of {', '.join(SEARCHES)}")
        self._kernel, self._task, self._kind, self._model = kernel, task, kind, model
        self._seed = seed
        self._fits: dict[Choices, bool] = {}

    @cached_property
    def points(self) -> list[Choices] | None:
        """Every point, or None where there are too many to list."""
        if not self._count:
            return [()]
        if estimated_size(self._kernel) > ENUMERATED:
            return None
        listed = list(islice(points(self._kernel), ENUMERATED + 1))
        return listed if len(listed) <= ENUMERATED else None

    def propose(
        self, trials: Iterable[Trial], wanted: int, kin: Sequence[Choices] = ()
    ) -> list[Choices]:
        """Return up to ``wanted`` points that are not among ``trials``; none if there are none.

        ``kin`` are choices that won for similar kernels: the points most like them come first.
        """
        times = {
            trial.choices: trial.measured.best_s for trial in trials if trial.choices is not None
        }
        rng = Random(f"{self._seed} {self._task.key} {len(times)}")
        if self._kind == "grid":
            source = points(self._kernel) if self._count else iter([()])
            return self._fitting((choices for choices in source if choices not in times), wanted)
        if self._kind == "random" or self._model is None:
            return self._fitting(self._random(times, wanted, rng), wanted)
        inherited = dict.fromkeys(self._like(choices) for choices in kin)
        first_ones = self._fitting((each for each in inherited if each not in times), wanted)
        known = times | dict.fromkeys(first_ones, float("inf"))
        return first_ones + self._evolved(known, wanted - len(first_ones), rng)

    @cached_property
    def _count(self) -> int:
        return len(first(self._kernel).choices)

    @cached_property
    def _options(self) -> dict[Choices, Options]:
        return _options(self.points or ())

    def _fitting(self, source: Iterable[Choices], wanted: int) -> list[Choices]:
        """Return the first of ``source`` that a GPU can run; a CPU can run all."""
        return list(islice((choices for choices in source if self._is_fitting(choices)), wanted))

    def _is_fitting(self, choices: Choices) -> bool:
        if self._kernel.target.kind.name != "cuda":
            return True
        if choices not in self._fits:
            try:
                point(self._kernel, choices)
                self._fits[choices] = True
            except ScheduleError:
                self._fits[choices] = False
        return self._fits[choices]

    def _random(self, seen: Iterable[Choices], wanted: int, rng: Random) -> Iterator[Choices]:
        """Yield ``wanted`` points that were not seen, at random, then more in case some do not fit.

        Of a space that is drawn from, there may be more than those.
        """
        known = {*seen, *(choices for choices, fits in self._fits.items() if not fits)}
        if self.points is not None:
            left = [choices for choices in self.points if choices not in known]
            chosen = rng.sample(left, min(wanted, len(left)))
            yield from chosen
            known.update(chosen)
            rest = [choices for choices in left if choices not in known]
            yield from rng.sample(rest, len(rest))
            return
        for _ in range(DRAWS * wanted):
            choices = draw(self._kernel, lambda _, options: rng.choice(options), self._count)
            if choices not in known:
                known.add(choices)
                yield choices

    def _evolved(self, times: dict[Choices, float], wanted: int, rng: Random) -> list[Choices]:
        """Return the best of some generations, with a few random points among them."""
        assert self._model is not None
        if wanted == 0:
            return []
        elite = sorted(times, key=lambda choices: times[choices])[:ELITE]
        source = self._random(times, POPULATION - len(elite), rng)
        fresh = list(islice(source, POPULATION - len(elite)))
        if not fresh or self._model.predict(self._task, fresh[:1]) is None:
            return self._fitting(chain(fresh, source), wanted)
        population = [*elite, *fresh]
        ranked: list[Choices] = []
        for _ in range(GENERATIONS):
            children = [self._mutant(rng.choice(population), rng) for _ in range(POPULATION)]
            pool = list(dict.fromkeys([*population, *ranked, *children]))
            scores = self._model.predict(self._task, pool)
            assert scores is not None
            order = sorted(range(len(pool)), key=lambda i: -scores[i])
            new = (pool[i] for i in order if pool[i] not in times)
            ranked = [each for each in new if self._fits.get(each, True)][:POPULATION]
            population = [pool[i] for i in order[:POPULATION]]
        greedy = self._fitting(ranked, max(1, round(wanted * GREEDY)))
        rest = (choices for choices in chain(fresh, source) if choices not in greedy)
        return [*greedy, *self._fitting(rest, wanted - len(greedy))]

    def _mutant(self, parent: Choices, rng: Random) -> Choices:
        forced = rng.randrange(self._count)
        return self._point(partial(_mutated, parent, forced, rng))

    def _like(self, choices: Choices) -> Choices:
        """Return the point whose choices are nearest to those of another kernel, one by one."""
        return self._point(partial(_nearest, choices))

    def _point(self, choose: Choose) -> Choices:
        if self.points is None:
            return draw(self._kernel, choose, self._count)
        child: Choices = ()
        for position in range(self._count):
            child = (*child, choose(position, self._options[child]))
        return child


def _options(listed: Iterable[Choices]) -> dict[Choices, Options]:
    """Return what can follow each beginning of the points that are listed."""
    options_after: dict[Choices, dict[Option, None]] = {}
    for choices in listed:
        for position, option in enumerate(choices):
            options_after.setdefault(choices[:position], {})[option] = None
    return {prefix: tuple(options) for prefix, options in options_after.items()}


def _nearest(wanted: Choices, position: int, options: Options) -> Option:
    if position >= len(wanted):
        return options[0]
    return min(options, key=lambda option: distance(_inner(option), _inner(wanted[position])))


def _inner(option: Option) -> Option:
    """Return an option without its outermost factor, which is what the extent leaves."""
    return option[1:] if isinstance(option, tuple) else option


def _mutated(parent: Choices, forced: int, rng: Random, position: int, options: Options) -> Option:
    """Keep a parent's choice, unless it is to change or is no option any more."""
    inherited = parent[position]
    is_kept = position != forced and inherited in options and rng.random() > MUTATED
    return inherited if is_kept else rng.choice(options)
