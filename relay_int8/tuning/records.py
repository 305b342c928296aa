"""Tuning records as a build uses them: from a kernel to the choices that won."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tvm.s_tir import Schedule
from tvm.target import Target

from relay_int8.errors import RecordError
from relay_int8.machine.gpu import Gpus, installed_gpus
from relay_int8.tuning.log_folders import logs
from relay_int8.tuning.recorded_gpu import Model, model_of, other_gpu, present_models
from relay_int8.tuning.trial_log import LogManifest, damaged, read_manifest, read_trials
from relay_int8.tuning.winner import Winner, by_task, winner
from schedules.space import Kernel, point, version
from schedules.spec import Spec, to_json
from schedules.targets import target_config
from schedules.task import Task
from schedules.template import ScheduleError

DECISIVE = ("kind", "mcpu", "mtriple", "num-cores", "arch")


@dataclass(frozen=True, kw_only=True)
class Record:
    """The winner of one kernel in one log."""

    winner: Winner
    version: str
    folder: Path


class Records:
    """The records under some folders that were made for ``target`` with this TVM.

    Parameters
    ----------
    folder
        Of the user's own logs, if any: what they know goes before what is shipped.
    shipped
        Folder of the logs that come with the project, see :func:`shipped_logs`; those for other
        CPUs and GPUs are passed over in silence.
    find_gpus
        Asked where ``target`` is a GPU: only the logs of one that is here are used, see
        :mod:`relay_int8.tuning.recorded_gpu`.

    ``refused`` says why others are not used, by folder or kernel.

    Raises
    ------
    RecordError
        If ``folder`` holds no log, or one is damaged.
    """

    def __init__(
        self,
        folder: Path | None,
        target: Target,
        shipped: Path | None = None,
        *,
        find_gpus: Callable[[], Gpus] = installed_gpus,
    ) -> None:
        self.refused: dict[str, str] = {}
        self._records: dict[str, list[Record]] = {}
        self._target, self._config = target, target_config(target)
        self._is_gpu = target.kind.name == "cuda"
        self._present = present_models(target, find_gpus()) if self._is_gpu else frozenset()
        if folder is not None:
            own = list(logs(folder))
            if not own:
                raise RecordError(f"{folder} holds no tuning log; make one with relay-int8 tune")
            manifests = {path: read_manifest(path) for path in own}
            recorded = {
                model_of(manifest)
                for manifest in manifests.values()
                if _other_target(manifest, self._config) is None
            }
            for path, manifest in manifests.items():
                self._read(path, manifest, self._records, recorded)
        if shipped is not None:
            by_key: dict[str, list[Record]] = {}
            for path in logs(shipped):
                self._read(path, read_manifest(path), by_key)
            for key, records in by_key.items():
                self._records.setdefault(key, []).extend(records)

    def _read(
        self,
        path: Path,
        manifest: LogManifest,
        records: dict[str, list[Record]],
        recorded: Collection[Model] | None = None,
    ) -> None:
        """Add a log's records, or say why not; ``recorded`` are the GPUs of the user's own logs."""
        says_why = recorded is not None
        misfit = _other_target(manifest, self._config)
        if misfit is None and self._is_gpu:
            misfit = other_gpu(model_of(manifest), self._present, recorded or ())
        reason = manifest.refusal() if misfit is None or says_why else None
        if reason or (misfit and says_why):
            self.refused[str(path)] = reason or str(misfit)
        elif misfit is None:
            _add(path, manifest, records)

    def __len__(self) -> int:
        return len(self._records)

    def schedule(self, task: Task, kernel: Kernel) -> Schedule | None:
        """Return the schedule that won for a kernel, or None where there is no record of it."""
        record = self._current(task, kernel)
        if record is None:
            return None
        choices = record.winner.choices
        if choices is None:
            return kernel.default()
        with damaged(record.folder):
            return point(kernel, choices).schedule

    def seconds(self, template: str, spec: Spec) -> float | None:
        """Return the seconds of a kernel as it was tuned, in the layouts where it took least.

        None where there is no record of it.
        """
        fitting = [
            record.winner.seconds
            for task in self._tasks.get((template, to_json(spec)), ())
            if (record := self._current(task, task.kernel(self._target))) is not None
        ]
        return min(fitting, default=None)

    @cached_property
    def _tasks(self) -> dict[tuple[str, str], list[Task]]:
        """Tasks on record, by template and spec: those of several layouts together."""
        by_kernel: dict[tuple[str, str], list[Task]] = {}
        for key in self._records:
            with suppress(ScheduleError):  # of another version: no kernel of today has such a key
                task = Task.from_key(key)
                by_kernel.setdefault((task.template, task.spec), []).append(task)
        return by_kernel

    def _current(self, task: Task, kernel: Kernel) -> Record | None:
        """Return the fastest record of a kernel as its template is today; note what is stale."""
        records = self._records.get(task.key, [])
        current = version(kernel) if records else ""
        record = next((record for record in records if record.version == current), None)
        if record is None:
            for stale in records:
                self.refused[f"{stale.folder}, {task.template}"] = (
                    "recorded with another version of the template; re-run relay-int8 tune"
                )
        return record


def _add(folder: Path, manifest: LogManifest, records: dict[str, list[Record]]) -> None:
    """Add the winners of a log; those of a kernel are kept in order, the fastest first."""
    for key, trials in by_task(read_trials(folder)).items():
        record = Record(winner=winner(trials), version=manifest.kernels.get(key, ""), folder=folder)
        known = [*records.get(key, []), record]
        records[key] = sorted(known, key=lambda record: record.winner.seconds)


def _other_target(manifest: LogManifest, config: dict[str, object]) -> str | None:
    """Say in what that matters for speed the recorded target is another, or None.

    Features of the same CPU that a virtual machine hides are not among it: those that kernels use
    decide which template is chosen.
    """
    recorded = dict(manifest.target)
    if all(recorded.get(name) == config.get(name) for name in DECISIVE):
        return None
    differs = [name for name in DECISIVE if recorded.get(name) != config.get(name)]
    pairs = (f"{name} {recorded.get(name)}, not {config.get(name)}" for name in differs)
    return f"recorded for {', '.join(pairs)}; tune for this target"
