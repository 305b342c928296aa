"""Tuning logs: what they hold, put together, made small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from relay_int8.argument_types import checked
from relay_int8.errors import RecordError
from relay_int8.tuning import upkeep
from relay_int8.tuning.log_folders import logs
from relay_int8.tuning.log_summary import log_summary
from relay_int8.tuning.trial_log import LogManifest, Trial, read_manifest, read_trials, task_of
from relay_int8.tuning.winner import by_task, winner
from schedules.space import Choices


@dataclass(frozen=True, kw_only=True)
class TunedKernel:
    """A kernel of a tuning log.

    Parameters
    ----------
    kernel
        What it computes, as reports name it.
    template
        Name of its schedule template.
    layers
        The tensors that it computes; none in logs of earlier versions.
    calls
        How often the network calls it.
    trials
        Measurements of it.
    default_us, tuned_us
        Time of its default schedule, and of the winner.
    choices
        The winner's; None where the default schedule wins.
    """

    kernel: str
    template: str
    layers: tuple[str, ...]
    calls: int
    trials: int
    default_us: float
    tuned_us: float
    choices: Choices | None


@dataclass(frozen=True, kw_only=True)
class TuningLog:
    """A tuning log.

    Parameters
    ----------
    path
        Its folder.
    network, device, tvm
        What was tuned, where it was measured, and by which version of TVM.
    totals
        Numbers of trials and of wrong ones, and the network's microseconds untuned and tuned.
    refusal
        Why builds do not use it; None if they do.
    kernels
        Its kernels.
    """

    path: Path
    network: str
    device: str
    tvm: str
    totals: Mapping[str, float]
    refusal: str | None
    kernels: tuple[TunedKernel, ...]


@checked
def read_tuning_logs(folder: str | Path) -> tuple[TuningLog, ...]:
    """Return the tuning logs in a folder, or the one that the folder is.

    Raises
    ------
    RecordError
        If there is none, or one cannot be read.
    """
    return tuple(_read(path) for path in _logs(Path(folder)))


@checked
def merge_tuning_logs(sources: Sequence[str | Path], output: str | Path) -> TuningLog:
    """Write one log at ``output`` with the trials of the logs ``sources``, and return it.

    Raises
    ------
    RecordError
        If the logs are of different devices, targets or TVM versions, or ``output`` is not empty.
    """
    upkeep.merge([Path(source) for source in sources], Path(output))
    return _read(Path(output))


@checked
def prune_tuning_logs(folder: str | Path, *, database: bool = True) -> int:
    """Keep only what builds need, the trials of each kernel's default and winner.

    Kernels whose templates have changed since are dropped whole: builds pass them over.

    Parameters
    ----------
    folder
        A log, or a folder of logs.
    database
        Whether MetaSchedule's files are kept, 100 kB a kernel; resuming makes them again.

    Returns
    -------
    int
        The number of trials that were dropped.

    Raises
    ------
    RecordError
        If there is no log.
    """
    _logs(Path(folder))
    return upkeep.prune(Path(folder), database=database)


def _logs(folder: Path) -> list[Path]:
    paths = list(logs(folder))
    if not paths:
        raise RecordError(f"{folder} holds no tuning log; make one with relay-int8 tune")
    return paths


def _read(path: Path) -> TuningLog:
    manifest, trials = read_manifest(path), read_trials(path)
    return TuningLog(
        path=path,
        network=manifest.network,
        device=manifest.device,
        tvm=manifest.tvm,
        totals=log_summary(manifest, trials),
        refusal=manifest.refusal(),
        kernels=tuple(_kernel(manifest, key, each) for key, each in by_task(trials).items()),
    )


def _kernel(manifest: LogManifest, key: str, trials: Sequence[Trial]) -> TunedKernel:
    best = winner(trials)
    task = task_of(manifest, key)
    return TunedKernel(
        kernel=task.title,
        template=task.template,
        layers=task.layers,
        calls=task.occurrences,
        trials=len(trials),
        default_us=best.default_s * 1e6,
        tuned_us=best.seconds * 1e6,
        choices=best.choices,
    )
