"""How many trials a search needs, on a 3x3 convolution of ResNet-50 that starts from a poor tile.

Every schedule of its space is measured here once, right or not, and kept in a table; searches are
then compared on the table: the same times for all, many seeds, in seconds. --live measures one
search as it is really used. "Found" is the first trial with so much of the best known speed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tvm.target import Target

from benchmarks.script_parser import script_parser
from relay_int8.compiler.target import resolve_target
from relay_int8.errors import Int8Error
from relay_int8.files import write_atomic
from relay_int8.machine.host import cpu_name
from relay_int8.tuning.batch import Measured
from relay_int8.tuning.cost_model import CostModel
from relay_int8.tuning.local_measurer import LocalMeasurer
from relay_int8.tuning.search import Search
from relay_int8.tuning.trial_log import Trial
from relay_int8.tuning.winner import fastest_s
from schedules import space
from schedules.catalog import TEMPLATES
from schedules.layout import NCHW16C
from schedules.space import Choices
from schedules.spec import Conv2d, to_json
from schedules.targets import target_config
from schedules.task import Task
from schedules.template import Layouts
from schedules.x86.winograd import WINOGRAD_AVX2, WINOGRAD_AVXVNNI, WINOGRAD_VNNI

LAYERS = {
    "conv2": (64, 56, 1),
    "conv3": (128, 28, 1),
    "conv4-stride": (256, 28, 2),
    "conv4": (256, 14, 1),
}
"""Channels, size and stride of ResNet-50's 3x3 convolutions."""
GOALS = (0.95, 0.995)  # of the best known speed
BATCH = 8  # trials between two looks at the times
CHUNK = 32  # schedules that are compiled together for the table
SEARCHES = ("xgb", "random")

Measure = Callable[[Sequence[Choices]], list[Measured]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, measure, print; return the exit code."""
    options = _parser().parse_args(arguments)
    target = resolve_target("native", options.threads)
    for name in options.layers:
        task = task_of(name, target)
        trials = _table(name, task, target, options)
        print(report(name, trials, task, target, options.seeds))
        if options.live:
            print(_live(task, target, trials, options.trials))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = script_parser("scripts/bench_tuning", __doc__)
    add = parser.add_argument
    add("--layers", nargs="+", choices=list(LAYERS), default=["conv3"])
    add("--threads", type=int, help="of the convolution; all cores by default")
    add("--seeds", type=int, default=5, help="of each search on the table (5)")
    add("--limit", type=int, help="measure only so many schedules, evenly spread over the space")
    add("--live", action="store_true", help="also run one search with xgb on the computer itself")
    add("--trials", type=int, default=64, help="of the live search (64)")
    add("--tables", type=Path, help="folder that keeps tables; a table that is there is used")
    return parser


def task_of(name: str, target: Target) -> Task:
    """Return the convolution ``name`` of :data:`LAYERS`, of direct products.

    Winograd's algorithm may take less time, but leaves little to search.
    """
    channels, size, stride = LAYERS[name]
    spec = Conv2d(
        batch=1,
        in_channels=channels,
        out_channels=channels,
        height=size,
        width=size,
        kernel=(3, 3),
        strides=(stride, stride),
        padding=(1, 1, 1, 1),
        x="uint8",
        y="uint8",
    )
    winograd = {each.name for each in (WINOGRAD_VNNI, WINOGRAD_AVXVNNI, WINOGRAD_AVX2)}
    template = next(
        each
        for each in TEMPLATES.values()
        if each.kind == spec.kind and each.name not in winograd and not each.refuses(spec, target)
    )
    layouts = template.layouts(spec, Layouts(inputs=(NCHW16C,), output=NCHW16C))
    names = (*(layout.name for layout in layouts.inputs), layouts.output.name)
    return Task(template=template.name, spec=to_json(spec), layouts=names)


def _table(name: str, task: Task, target: Target, options: argparse.Namespace) -> tuple[Trial, ...]:
    """Return a trial of the default and of every schedule, measured now or before."""
    threads = target.attrs.get("num-cores", 1)
    path = options.tables / f"{name}-{threads}.json" if options.tables else None
    if path and path.exists():
        lines: list[str] = json.loads(path.read_text())["trials"]
        return tuple(map(Trial.from_json, lines))
    points = list(space.points(task.kernel(target)))
    step = max(1, len(points) // (options.limit or len(points)))
    candidates: list[Choices | None] = [None, *points[::step][: options.limit]]
    trials, start = list[Trial](), time.monotonic()
    with LocalMeasurer(target_config(target)) as measurer:
        for first in range(0, len(candidates), CHUNK):
            part = candidates[first : first + CHUNK]
            for choices, measured in zip(part, measurer.measure(task, part), strict=True):
                trials.append(Trial(task=task.key, choices=choices, measured=measured))
            rate = len(trials) / (time.monotonic() - start)
            print(
                f"{name}: {len(trials)} of {len(candidates)}, {rate:.1f} a second", file=sys.stderr
            )
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"cpu": cpu_name(), "trials": [trial.to_json() for trial in trials]}
        write_atomic(path, json.dumps(content, indent=1).encode())
    return tuple(trials)


def report(name: str, table: Sequence[Trial], task: Task, target: Target, seeds: int) -> str:
    """Return the text: the space, where searches start, and how many trials each needs."""
    points = [trial for trial in table if trial.choices is not None]
    default_s = fastest_s(trial for trial in table if trial.choices is None)
    poor, best_s = poorest(points), fastest_s(points)
    lines = [
        f"{name}: {task.title}, {task.template}, {target.attrs.get('num-cores', 1)} threads, "
        f"{cpu_name()}",
        f"  {len(points)} schedules; best {best_s * 1e6:.1f} us, default {default_s * 1e6:.1f} us, "
        f"start {poor.measured.best_s * 1e6:.1f} us ({poor.choices})",
    ]
    for goal in GOALS:
        good = sum(trial.measured.best_s <= best_s / goal for trial in points)
        lines.append(f"  {goal:.1%} of the best speed, which {good} schedules have:")
        for kind in SEARCHES:
            found = [
                trials_needed(points, task, target, kind, seed, goal)
                for seed in range(1, seeds + 1)
            ]
            median = statistics.median(found)
            lines.append(
                f"    {kind:6} found after {median:g} trials (median; {seeds} seeds: {found})"
            )
    return "\n".join(lines)


def poorest(points: Sequence[Trial]) -> Trial:
    """Return the slowest of the right ones: the default that is deliberately poor."""
    right = [trial for trial in points if trial.measured.verdict == "ok"]
    return max(right, key=lambda trial: trial.measured.best_s)


def trials_needed(
    points: Sequence[Trial], task: Task, target: Target, kind: str, seed: int, goal: float
) -> int:
    """Return after how many trials a search on a table has found ``goal`` of the best speed.

    A schedule that is proposed but not in the table (it was limited) costs no trial.
    """
    times = {trial.choices: trial.measured for trial in points if trial.choices is not None}
    goal_s = fastest_s(points) / goal
    absent = Measured(verdict="refused")
    known = 0
    for trial in _search(
        task, target, kind, seed, lambda found: [times.get(key, absent) for key in found], points
    ):
        known += trial.choices in times
        if trial.measured.best_s <= goal_s:
            return known
    return known


def _search(
    task: Task, target: Target, kind: str, seed: int, measure: Measure, points: Sequence[Trial]
) -> Iterator[Trial]:
    """Yield the trials of a search that knows one poor schedule at the start."""
    model = CostModel(seed) if kind == "xgb" else None
    search = Search(task.kernel(target), task, kind, model, seed)
    trials = [poorest(points)]
    while proposed := search.propose(trials, BATCH):
        for choices, measured in zip(proposed, measure(proposed), strict=True):
            trials.append(Trial(task=task.key, choices=choices, measured=measured))
            yield trials[-1]
        if model:
            model.learn(task, trials)


def _live(task: Task, target: Target, table: Sequence[Trial], most: int) -> str:
    """Search on the computer itself; what is found takes turns with the best of the table."""
    points = [trial for trial in table if trial.choices is not None]
    best = min(points, key=lambda trial: trial.measured.best_s)
    trials, start = list[Trial](), time.monotonic()
    with LocalMeasurer(target_config(target)) as measurer:
        for trial in _search(
            task, target, "xgb", 1, lambda found: measurer.measure(task, found), points
        ):
            trials.append(trial)
            if len(trials) >= most:
                break
        seconds = time.monotonic() - start
        found = min(trials, key=lambda trial: trial.measured.best_s)
        both = measurer.compare(task, [best.choices, found.choices])
    share = statistics.median(
        one / other for one, other in zip(both[0].seconds, both[1].seconds, strict=True)
    )
    return (
        f"  live: {len(trials)} trials in {seconds:.0f} s; what they found, {found.choices}, has "
        f"{share:.1%} of the speed of the best known, {best.choices}"
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Int8Error as error:
        sys.exit(f"error: {error}")
