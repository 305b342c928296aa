"""A tuning log as an HTML page: what was gained where, how, and how well the model knew.

Every section is made from the log alone, so a page can be written while the tuner runs, and later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from relay_int8.argument_types import checked
from relay_int8.messages import few
from relay_int8.report.pages.page import HEIGHT_PX, Section, figure, paragraph, table, write_page
from relay_int8.tuning.log_summary import log_summary
from relay_int8.tuning.trial_log import LogManifest, Trial, read_manifest, read_trials, task_of
from relay_int8.tuning.tuner import BATCH
from relay_int8.tuning.winner import Winner, by_task, fastest_s, winner

# Told apart by people who see colours differently too: Okabe and Ito's, then four darker ones.
COLOURS = (
    *("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#000000"),
    *("#7f4f00", "#5b3a8c", "#8a1c1c", "#4d7d2e"),
)
LEGEND_ROW_PX = 19  # on a phone each entry of the legend has a row of its own
LEAST_ROUND = 4  # candidates without which a correlation says nothing


@checked
def write_tuning_page(log: str | Path, output: str | Path) -> None:
    """Write an HTML page of a tuning log: progress, cost model, winners, shares of time and peak.

    Parameters
    ----------
    log
        Its folder.
    output
        The page to write.

    Raises
    ------
    RecordError
        If there is no log, or it is damaged.
    ConfigError
        If Plotly is not installed.
    """
    manifest, trials = read_manifest(Path(log)), read_trials(Path(log))
    kernels = _kernels(manifest, trials)
    sections = [_standing(manifest, kernels), _progress(kernels), _model(trials)]
    title = f"Tuning {manifest.network} on {manifest.device}"
    write_page(output, title, _facts(manifest, trials), sections)


def _facts(manifest: LogManifest, trials: Sequence[Trial]) -> dict[str, str]:
    totals = log_summary(manifest, trials)
    untuned_us, tuned_us = totals["untuned_us"], totals["tuned_us"]
    return {
        "Device": f"{manifest.device}; {manifest.clocks}".rstrip("; "),
        "Target": ", ".join(f"{key} {_words(value)}" for key, value in manifest.target.items()),
        "TVM": manifest.tvm,
        "Trials": f"{totals['trials']}, {totals['wrong']} of them wrong; seed {manifest.seed}",
        "Kernels of the network": f"{untuned_us:.1f} us by default, {tuned_us:.1f} us tuned",
        "Multiplications of one core": f"{manifest.peak_macs_s / 1e9:.1f} G a second at most"
        if manifest.peak_macs_s
        else "not measured",
    }


def _words(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


class _Kernel:
    """One kernel in the log."""

    def __init__(self, manifest: LogManifest, key: str, trials: Sequence[Trial]) -> None:
        self.task = task_of(manifest, key)
        self.trials = trials
        self.winner: Winner = winner(trials)
        cores = int(manifest.target.get("num-cores", 1))
        self._peak_macs_s = manifest.peak_macs_s * cores

    @property
    def seconds(self) -> float:
        """Of all its calls, tuned."""
        return self.task.occurrences * self.winner.seconds

    @property
    def of_peak(self) -> str:
        """The share of the peak that it reaches, in percent; empty where no peak applies."""
        macs = self.task.operator.multiplications
        if not macs or not self._peak_macs_s or self.task.template.endswith("_f32"):
            return ""
        return f"{macs / self.winner.seconds / self._peak_macs_s:.0%}"

    @property
    def best_us(self) -> list[float]:
        """The best time after each trial, from the default on."""
        times = (trial.measured.best_s for trial in self.trials if not trial.final)
        return [round(best * 1e6, 3) for best in accumulate(times, min)]


def _kernels(manifest: LogManifest, trials: Sequence[Trial]) -> list[_Kernel]:
    """Return the kernels whose default is right, those that take most time first."""
    kernels = [_Kernel(manifest, key, of_task) for key, of_task in by_task(trials).items()]
    right = [kernel for kernel in kernels if kernel.winner.default_s < float("inf")]
    return sorted(right, key=lambda kernel: -kernel.seconds)


def _standing(manifest: LogManifest, kernels: Sequence[_Kernel]) -> Section:
    total = sum(kernel.seconds for kernel in kernels)
    numbers = ("calls", "of the time", "default us", "tuned us", "gain", "of peak", "trials")
    rows = [
        [
            kernel.task.title,
            kernel.task.template,
            few(kernel.task.layers),
            str(kernel.task.occurrences),
            f"{kernel.seconds / total:.1%}",
            f"{kernel.winner.default_s * 1e6:.1f}",
            f"{kernel.winner.seconds * 1e6:.1f}",
            f"{1 - kernel.winner.seconds / kernel.winner.default_s:.1%}",
            kernel.of_peak,
            str(len(kernel.trials)),
            "default" if kernel.winner.choices is None else str(list(kernel.winner.choices)),
        ]
        for kernel in kernels
    ]
    cores = manifest.target.get("num-cores", 1)
    text = (
        "Times are of one call. The share of the peak counts only products inside the image, of "
        f"{cores} cores; the configuration is what the template chose, in its order."
    )
    header = ("kernel", "template", "layers", *numbers, "configuration")
    return Section(title="Kernels", parts=(paragraph(text), table(header, rows, right=numbers)))


def _progress(kernels: Sequence[_Kernel]) -> Section:
    searched = [kernel for kernel in kernels if len(kernel.best_us) > 1]
    named, others = searched[: len(COLOURS)], searched[len(COLOURS) :]
    traces = [
        *(_best_times(kernel, "#c8c8c8", showlegend=False) for kernel in others),
        *(_best_times(*pair) for pair in zip(named, COLOURS, strict=False)),
    ]
    text = (
        f"{len(searched)} of {len(kernels)} kernels were searched. Those that take most time have "
        "colours; the others are grey, and their names appear under the pointer."
    )
    plot = figure(
        traces,
        name="progress",
        x="trials of the kernel",
        y="best time / default's",
        legend={"yanchor": "top", "y": -0.15},
        height=HEIGHT_PX + LEGEND_ROW_PX * len(named),
    )
    return Section(title="Best time over trials", parts=(paragraph(text), plot))


def _best_times(kernel: _Kernel, colour: str, **more: Any) -> dict[str, Any]:
    name = f"{kernel.task.title_of_layer}, {kernel.task.template}"
    return {
        "type": "scatter",
        "mode": "lines",
        "line": {"shape": "hv", "color": colour},
        "name": name,
        "x": list(range(len(kernel.best_us))),
        "y": [best / kernel.best_us[0] for best in kernel.best_us],
        "customdata": kernel.best_us,
        "hovertemplate": "trial %{x}: %{customdata:.1f} us",
        **more,
    }


def _model(trials: Sequence[Trial]) -> Section:
    points = list(_predictions(trials))
    if len(points) < LEAST_ROUND:
        text = f"The cost model chose {len(points)} trials, too few to judge it by."
        return Section(title="Cost model", parts=(paragraph(text),))
    predicted, measured = (list(values) for values in zip(*points, strict=True))
    scatter = {
        "type": "scattergl" if len(points) > 2000 else "scatter",
        "mode": "markers",
        "marker": {"size": 4, "opacity": 0.5},
        "x": predicted,
        "y": measured,
        "name": "candidates",
    }
    line = {"type": "scatter", "mode": "lines", "x": [0, 1], "y": [0, 1], "name": "as predicted"}
    correlations = round_correlations(trials)
    rounds = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": list(range(1, len(correlations) + 1)),
        "y": correlations,
        "name": "rank correlation",
    }
    median = f"{np.median(correlations):.2f}" if correlations else "not known"
    text = (
        "Predicted before a candidate was measured: its speed as a share of the fastest of its "
        f"kernel. Over all {len(points)} the rank correlation is "
        f"{rank_correlation(predicted, measured):.2f}; the median over rounds is {median}. The "
        "model chose most of these candidates itself, so they are more alike than the space."
    )
    parts = [paragraph(text), figure([scatter, line], name="model", x="predicted", y="measured")]
    if correlations:
        parts.append(figure([rounds], name="rounds", x="round", y="rank correlation"))
    return Section(title="Cost model", parts=tuple(parts))


def _predictions(trials: Sequence[Trial]) -> Iterator[tuple[float, float]]:
    """Yield predicted and measured shares of the fastest; 0 for what was not right."""
    best = {key: fastest_s(task_trials) for key, task_trials in by_task(trials).items()}
    for trial in trials:
        if trial.predicted is not None:
            yield trial.predicted, _share(trial, best)


def _share(trial: Trial, best: Mapping[str, float]) -> float:
    return round(best[trial.task] / trial.measured.best_s, 4)


def round_correlations(trials: Sequence[Trial]) -> list[float]:
    """Return the rank correlation of predicted and measured shares of each round of the search."""
    rounds: list[list[Trial]] = []
    for trial in trials:
        if trial.predicted is None:
            continue
        if not rounds or rounds[-1][0].task != trial.task or len(rounds[-1]) == BATCH:
            rounds.append([])
        rounds[-1].append(trial)
    best = {key: fastest_s(task_trials) for key, task_trials in by_task(trials).items()}
    return [
        round(
            rank_correlation(
                [float(trial.predicted or 0) for trial in round_trials],
                [_share(trial, best) for trial in round_trials],
            ),
            3,
        )
        for round_trials in rounds
        if len(round_trials) >= LEAST_ROUND
    ]


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Spearman's rank correlation, 0 where one of the two does not vary.

    Equal values share the mean of their ranks.
    """
    first, second = (_ranks(np.asarray(values)) for values in (a, b))
    if first.std() == 0 or second.std() == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    _, rank_of, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: np.ndarray = (last - (count - 1) / 2)[rank_of]
    return ranks
