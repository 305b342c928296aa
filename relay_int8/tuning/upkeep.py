"""Merge tuning logs, and prune them to the trials that decide what builds use."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

from tvm.target import Target

from relay_int8.errors import RecordError
from relay_int8.files import write_atomic
from relay_int8.tuning.log_folders import logs
from relay_int8.tuning.log_summary import log_summary
from relay_int8.tuning.metaschedule_database import FILES, Database
from relay_int8.tuning.trial_log import (
    MANIFEST,
    TRIALS,
    LogManifest,
    Trial,
    damaged,
    read_manifest,
    read_trials,
)
from relay_int8.tuning.winner import by_task, winner
from schedules.space import version
from schedules.task import Task
from schedules.template import ScheduleError


def merge(sources: Sequence[Path], output: Path) -> LogManifest:
    """Write one log at ``output`` with the trials of the logs ``sources``.

    A trial that several logs have (one is a copy of the other) is there once. The kernels of all
    are the kernels of the new log; where logs know a kernel in different versions, the merge fails.

    Raises
    ------
    RecordError
        If the logs are of different devices, targets or TVM versions, or ``output`` is not empty.
    """
    if (output / MANIFEST).exists():
        raise RecordError(f"{output} holds a log already; merge into a new folder")
    manifests = [read_manifest(source) for source in sources]
    first = manifests[0]
    for source, manifest in zip(sources[1:], manifests[1:], strict=True):
        reason = _misfit(first, manifest)
        if reason:
            raise RecordError(f"{source} does not fit {sources[0]}: {reason}")
    lines = {trial.to_json(): trial for source in sources for trial in read_trials(source)}
    merged = dataclasses.replace(
        first,
        network="+".join(dict.fromkeys(manifest.network for manifest in manifests)),
        network_digest="",
        kernels={key: value for manifest in manifests for key, value in manifest.kernels.items()},
        occurrences={
            key: value for manifest in manifests for key, value in manifest.occurrences.items()
        },
        layers={key: value for manifest in manifests for key, value in manifest.layers.items()},
    )
    trials = list(lines.values())
    return _write(output, dataclasses.replace(merged, results=log_summary(merged, trials)), trials)


def prune(folder: Path, *, database: bool = True) -> int:
    """Keep only what builds need; return how many trials were dropped.

    That is the trials of each kernel's default and winner. Kernels that templates make otherwise by
    now are dropped whole, since builds pass them over; not from logs of another TVM, where nobody
    can tell. Builds use the same schedules as before. The cost model of later runs has less to
    learn from, and tuning cannot be resumed where it stopped. Without ``database`` MetaSchedule's
    files are left out, 100 kB a kernel; they follow from the trials, and --resume makes them again.
    """
    dropped = 0
    for path in logs(folder):
        every = read_trials(path)
        manifest = _without_stale(path, read_manifest(path))
        trials = [trial for trial in every if trial.task in manifest.kernels]
        kept = [trial for of_task in by_task(trials).values() for trial in _decisive(of_task)]
        dropped += len(every) - len(kept)
        manifest = dataclasses.replace(manifest, results=_spent(manifest, trials))
        _write(path, manifest, kept, database=database)
    return dropped


def _without_stale(path: Path, manifest: LogManifest) -> LogManifest:
    """Return the manifest of ``path`` without kernels that templates make otherwise, or no more."""
    if manifest.refusal():
        return manifest
    with damaged(path):
        target = Target(dict(manifest.target))
        current = {key for key in manifest.kernels if _is_current(manifest, key, target)}
    return dataclasses.replace(
        manifest,
        kernels={key: value for key, value in manifest.kernels.items() if key in current},
        occurrences={key: count for key, count in manifest.occurrences.items() if key in current},
        layers={key: names for key, names in manifest.layers.items() if key in current},
    )


def _spent(manifest: LogManifest, trials: Sequence[Trial]) -> dict[str, float]:
    """Return the results of a log, its numbers of trials as they were before it was pruned."""
    summary = log_summary(manifest, trials)
    return summary | {
        name: max(summary[name], manifest.results.get(name, 0)) for name in ("trials", "wrong")
    }


def _decisive(trials: Sequence[Trial]) -> Iterable[Trial]:
    best = winner(trials).choices
    return [trial for trial in trials if trial.choices in (None, best)]


def _write(
    folder: Path, manifest: LogManifest, trials: Sequence[Trial], *, database: bool = True
) -> LogManifest:
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{trial.to_json()}\n" for trial in trials)
    write_atomic(folder / TRIALS, text.encode())
    write_atomic(folder / MANIFEST, manifest.to_json().encode())
    if not database:
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
        return manifest
    with damaged(folder):
        target = Target(dict(manifest.target))
        usable = [trial for trial in trials if _is_current(manifest, trial.task, target)]
        tasks = {trial.task: Task.from_key(trial.task) for trial in usable}
        Database(folder, tasks, target, usable)
    return manifest


def _is_current(manifest: LogManifest, key: str, target: Target) -> bool:
    """Whether the templates still make the kernels that were measured."""
    if manifest.refusal() or key not in manifest.kernels:
        return False
    try:
        return version(Task.from_key(key).kernel(target)) == manifest.kernels.get(key)
    except (KeyError, ScheduleError):  # a template of that name is gone, or another
        return False


def _misfit(one: LogManifest, other: LogManifest) -> str | None:
    for name in ("device", "multiprocessors", "target", "tvm"):
        if getattr(one, name) != getattr(other, name):
            return f"its {name} is {getattr(other, name)}, not {getattr(one, name)}"
    if any(
        other.kernels[key] != value for key, value in one.kernels.items() if key in other.kernels
    ):
        return "it knows other versions of the same kernels; tune again with one version"
    return None
