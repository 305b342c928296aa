"""One run of the tuner: its options, its measurer, and the log that it writes."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tvm.target import Target

from relay_int8.argument_types import checked
from relay_int8.compiler.gpu_code import gpu_needs
from relay_int8.errors import ConfigError
from relay_int8.machine.gpu import misfit_here
from relay_int8.machine.host import lacking
from relay_int8.remote.address import Endpoint
from relay_int8.tuning.batch import Timing
from relay_int8.tuning.local_measurer import LocalMeasurer
from relay_int8.tuning.log_folders import LOGS, log_folder, logs
from relay_int8.tuning.log_summary import log_summary
from relay_int8.tuning.measurer import MeasuringDevice
from relay_int8.tuning.remote_measurer import RemoteMeasurer
from relay_int8.tuning.trial_log import Log, LogManifest, Trial, read_manifest, read_trials, task_of
from relay_int8.tuning.tuner import TrialListener, Tuner
from relay_int8.tuning.winner import by_task
from schedules.space import version
from schedules.targets import needed_flags, target_config
from schedules.task import Task


@checked
@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """How to tune.

    Parameters
    ----------
    trials
        Candidates to measure beside the defaults, those of earlier runs included.
    seconds
        After which no more candidates are chosen; what was found is then compared.
    search, seed
        See :class:`relay_int8.tuning.search.Search`.
    resume
        Go on with the log that is there.
    warm_start
        Folders of logs whose trials the cost model learns from first.
    workers
        Processes that compile on this computer; one a core if None.
    rack, devices
        Where to measure instead of here, and on how many devices at once.
    patience_s
        Seconds to wait for a device of the rack before giving up.
    """

    trials: int = 1000
    seconds: float = float("inf")
    search: str = "xgb"
    seed: int = 1
    resume: bool = False
    warm_start: tuple[Path, ...] = ()
    timing: Timing = field(default_factory=Timing)
    workers: int | None = None
    rack: Endpoint | None = None
    devices: int = 1
    patience_s: float = 600.0


def tune_tasks(
    tasks: Sequence[Task],
    target: Target,
    name: str,
    options: TuneOptions,
    *,
    folder: Path = Path(LOGS),
    report: TrialListener | None = None,
) -> Path:
    """Tune ``tasks``, the kernels of network ``name``, and return the folder of their log.

    It may be interrupted at any time; what was measured until then is in the log.

    Raises
    ------
    ConfigError
        If this computer is to measure and cannot run code for ``target``, or an option is unknown.
    DeployError
        If there is no device, none any more, or a GPU that cannot be used.
    ArtifactError
        If devices are another kind of computer, and no compiler here links for it.
    RecordError
        As :class:`relay_int8.tuning.trial_log.Log`.
    """
    warm = list(_warm(options.warm_start))
    with _measurer(target, options) as measurer:
        device = measurer.describe()
        where = log_folder(folder, target, device.name, name, device.multiprocessors)
        log = Log(where, _manifest(tasks, target, name, options, device), resume=options.resume)
        try:
            tuner = Tuner(
                tasks,
                target,
                measurer,
                log,
                search=options.search,
                seed=options.seed,
                warm=warm,
                report=report,
            )
            tuner.run(options.trials, seconds=options.seconds)
        finally:
            log.save(
                dataclasses.replace(log.manifest, results=log_summary(log.manifest, log.trials))
            )
            log.close()
    return where


def _measurer(target: Target, options: TuneOptions) -> LocalMeasurer | RemoteMeasurer:
    config = target_config(target)
    if options.rack is not None:
        if options.timing.flush and target.kind.name == "cuda":
            raise ConfigError(
                "the cache of another computer's GPU cannot be emptied before a run; leave "
                "Timing(flush=True) out, or tune where the GPU is"
            )
        return RemoteMeasurer(
            config,
            options.rack,
            devices=options.devices,
            timing=options.timing,
            patience_s=options.patience_s,
        )
    reason = obstacle(target)
    if reason:
        raise ConfigError(reason)
    return LocalMeasurer(config, timing=options.timing, workers=options.workers)


def obstacle(target: Target) -> str | None:
    """Say why this computer cannot run code for ``target``, and what to do; None if it can."""
    missing = lacking(needed_flags(target))
    if missing:
        return (
            f"this CPU has no {missing}, which code for the target may use; tune on a "
            "computer that has, here or with TuneOptions(rack=...)"
        )
    gpu = gpu_needs(target)
    reason = misfit_here(gpu)
    if gpu is None or reason is None:
        return None
    return (
        f"this computer cannot run kernels for {gpu.ptx_architecture}: {reason}; or measure where "
        "there is such a GPU, with TuneOptions(rack=...)"
    )


def _manifest(
    tasks: Sequence[Task], target: Target, name: str, options: TuneOptions, device: MeasuringDevice
) -> LogManifest:
    keys = sorted(task.key for task in tasks)
    return LogManifest(
        device=device.name,
        clocks=device.clocks,
        peak_macs_s=device.peak_macs_s,
        multiprocessors=device.multiprocessors,
        network=name,
        network_digest=hashlib.sha256("\n".join(keys).encode()).hexdigest(),
        target=target_config(target),
        seed=options.seed,
        kernels={task.key: version(task.kernel(target)) for task in tasks},
        occurrences={task.key: task.occurrences for task in tasks},
        layers={task.key: task.layers for task in tasks},
    )


def _warm(folders: Sequence[Path]) -> Iterator[tuple[Task, list[Trial]]]:
    """Yield the trials of other logs by task."""
    for folder in folders:
        paths = list(logs(folder))
        if not paths:
            raise ConfigError(f"{folder} holds no tuning log to start from")
        for path in paths:
            manifest = read_manifest(path)
            for key, trials in by_task(read_trials(path)).items():
                yield task_of(manifest, key), trials
