"""The points of a template's space, chosen from outside.

A template samples its tiles with MetaSchedule's instructions, and what it samples later may depend
on what it sampled before (how many columns fit beside so many blocks), as may the loops it makes.
So a point is the list of its choices, and :func:`point` runs the template with them: a choice that
is changed changes what follows. The number of choices is the same for all points of one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any, cast

import tvm_ffi
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cuda.device.limits import exceeded
from schedules.spec import Spec
from schedules.template import Layouts, ScheduleError, ScheduleTemplate

Option = int | tuple[int, ...]
Options = tuple[Option, ...]
Choices = tuple[Option, ...]
Choose = Callable[[int, Options], Option]
ESTIMATES = 6  # random points by which a space is judged; a space differs little between them
COUNTED = 128  # points that are counted one by one: listing takes milliseconds for each


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel on one target: where a space is.

    ``made`` is what the template made of spec and layouts, where it is at hand.
    """

    template: ScheduleTemplate
    spec: Spec
    layouts: Layouts
    target: Target
    made: tirx.PrimFunc | None = None

    def schedule(self) -> Schedule:
        """Return a schedule of the kernel that nothing was done to yet; its function is "main"."""
        return Schedule(self._main, seed=1)

    @cached_property
    def _main(self) -> tirx.PrimFunc:
        """The kernel, made once: a space is looked at through thousands of schedules of it."""
        func = self.made
        if func is None:
            func = self.template.kernel(self.spec, self.layouts)
        return func.with_attr("global_symbol", "main")

    def default(self) -> Schedule:
        """Return the schedule of the default tiles."""
        sch = self.schedule()
        self.template.default(sch, self.spec, self.target)
        return sch

    def function(self, schedule: Schedule) -> tirx.PrimFunc:
        """Return the kernel as ``schedule`` leaves it, ready to compile."""
        return self.template.finish(schedule.mod["main"])


@dataclass(frozen=True, kw_only=True)
class Point:
    """One point: what was chosen, among what, and the schedule that came of it."""

    choices: Choices
    options: tuple[Options, ...]
    schedule: Schedule


def trace(kernel: Kernel, choose: Choose) -> Point:
    """Return the point that ``choose(position, options)`` leads to.

    Raises
    ------
    ScheduleError
        If ``choose`` gives something that is no option, or the template samples in another way
        than by tiles that divide and by categories.
    """
    guided = _Guided(kernel.schedule(), choose)
    kernel.template.space(cast(Schedule, guided), kernel.spec, kernel.target)
    return Point(
        choices=tuple(guided.choices), options=tuple(guided.options), schedule=guided.schedule
    )


def draw(kernel: Kernel, choose: Choose, count: int) -> Choices:
    """Return the ``count`` choices that ``choose`` makes; much cheaper than :func:`trace`."""
    drawn: list[Option] = []

    def _note(position: int, options: Options) -> Option:
        drawn.append(choose(position, options))
        if len(drawn) == count:
            raise _EnoughError
        return drawn[-1]

    if count:
        with suppress(_EnoughError):
            trace(kernel, _note)
    return tuple(drawn)


def point(kernel: Kernel, choices: Choices) -> Point:
    """Return the point of ``choices``; ScheduleError if there is none, or no GPU can run it."""

    def _choose(position: int, options: Options) -> Option:
        return choices[position] if position < len(choices) else -1

    reason = kernel.template.crowded(choices)
    if reason:
        raise ScheduleError(f"{kernel.template.name} with {list(choices)}: {reason}")
    point = trace(kernel, _choose)
    if len(point.choices) != len(choices):
        raise ScheduleError(
            f"{kernel.template.name} makes {len(point.choices)} choices, {len(choices)} are given"
        )
    reason = exceeded(point.schedule, kernel.target)
    if reason:
        raise ScheduleError(f"{kernel.template.name} with {list(choices)}: {reason}")
    return point


def first(kernel: Kernel) -> Point:
    """Return the point of all first options: cheap, always there, and the same everywhere."""
    return trace(kernel, lambda _, options: options[0])


def points(kernel: Kernel) -> Iterator[Choices]:
    """Yield the choices of every point, the last choice moving fastest."""
    count = len(first(kernel).choices)
    return _below(kernel, (), count) if count else iter([()])


def size(kernel: Kernel, limit: int = COUNTED) -> int | None:
    """Return the number of points, or None where there are more than ``limit``.

    Spaces that are estimated to be twice as large are not counted.
    """
    if estimated_size(kernel) > 2 * limit:
        return None
    for total, _ in enumerate(points(kernel)):
        if total == limit:
            return None
    return total + 1


def estimated_size(kernel: Kernel) -> int:
    """Return about how many points there are; exact where no choice depends on another.

    The mean, over random points, of the product of how many options each choice had there: an
    estimate without bias of the leaves of a tree (Knuth, "Estimating the efficiency of backtrack
    programs", 1975). The same in every call.
    """
    count, rng = len(first(kernel).choices), Random(1)

    def _product() -> int:
        total = 1

        def _choose(_position: int, options: Options) -> Option:
            nonlocal total
            total *= len(options)
            return rng.choice(options)

        draw(kernel, _choose, count)
        return total

    return round(sum(_product() for _ in range(ESTIMATES)) / ESTIMATES)


def version(kernel: Kernel) -> str:
    """Return a fingerprint of kernel and loops: records of another version mean other code."""
    hashes = (
        tvm_ffi.structural_hash(mod) for mod in (kernel.schedule().mod, first(kernel).schedule.mod)
    )
    return "".join(f"{value & (2**64 - 1):016x}" for value in hashes)


def _below(kernel: Kernel, prefix: Choices, count: int) -> Iterator[Choices]:
    for option in _options_after(kernel, prefix):
        if len(prefix) + 1 == count:
            yield (*prefix, option)
        else:
            yield from _below(kernel, (*prefix, option), count)


class _EnoughError(Exception):
    """The options that were asked for are known; the schedule is of no interest."""


def _options_after(kernel: Kernel, prefix: Choices) -> Options:
    all_options: list[Options] = []

    def _choose(position: int, options: Options) -> Option:
        if position == len(prefix):
            all_options.append(options)
            raise _EnoughError
        return prefix[position]

    try:
        trace(kernel, _choose)
    except _EnoughError:
        return all_options[0]
    raise ScheduleError(f"{kernel.template.name} makes {len(prefix)} choices here, elsewhere more")


class _Guided:
    """A schedule whose sampling instructions ask ``choose``; all else is the schedule's own."""

    def __init__(self, schedule: Schedule, choose: Choose) -> None:
        self.schedule = schedule
        self.choices: list[Option] = []
        self.options: list[Options] = []
        self._choose = choose

    def __getattr__(self, name: str) -> Any:
        if name.startswith("sample_"):
            raise ScheduleError(f"{name} cannot be chosen from outside; sample tiles or categories")
        return getattr(self.schedule, name)

    def sample_categorical(self, candidates: Sequence[int], probs: Sequence[float]) -> Any:
        """Sample as ``Schedule`` does, but the candidate that was chosen; ``probs`` has no say."""
        index = self._choice(tuple(int(candidate) for candidate in candidates))
        return self.schedule.sample_categorical(list(candidates), list(probs), decision=index)

    def sample_perfect_tile(self, loop: Any, n: int, max_innermost_factor: int = 16) -> Any:
        """Sample as ``Schedule`` does, but the tiling that was chosen."""
        extent = int(self.schedule.get(loop).extent)
        tiles = tuple(tile for tile in tilings(extent, n) if tile[-1] <= max_innermost_factor)
        decision = list(tiles[self._choice(tiles)])
        return self.schedule.sample_perfect_tile(loop, n, max_innermost_factor, decision=decision)

    def _choice(self, options: Options) -> int:
        option = self._choose(len(self.choices), options)
        if option not in options:
            raise ScheduleError(f"choice {len(self.choices)} is {option}, not one of {options}")
        self.choices.append(option)
        self.options.append(options)
        return options.index(option)


def tilings(extent: int, n: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to write ``extent`` as a product of ``n`` factors."""
    if n == 1:
        yield (extent,)
        return
    for outer in range(1, extent + 1):
        if extent % outer == 0:
            for inner in tilings(extent // outer, n - 1):
                yield (outer, *inner)
