"""What was tuned, as a build uses it: from a kernel to the choices that won."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tvm.s_tir import Schedule
from tvm.target import Target

from relay_int8.errors import RecordError
from relay_int8.tuning.log import MANIFEST, Manifest, read_manifest, read_trials
from relay_int8.tuning.task import Task
from relay_int8.tuning.winner import Winner, by_task, winner
from schedules.space import Kernel, point, version
from schedules.targets import target_config


@dataclass(frozen=True, kw_only=True)
class Record:
    """The winner of one kernel in one log."""

    winner: Winner
    version: str
    folder: Path


class Records:
    """The records under some folders that were made for ``target`` with this TVM.

    ``refused`` says why others are not used, by folder or kernel.

    Raises
    ------
    RecordError
        If a folder holds no log, or a damaged one.
    """

    def __init__(self, folder: Path, target: Target) -> None:
        self.refused: dict[str, str] = {}
        self._records: dict[str, Record] = {}
        config = target_config(target)
        found = list(logs(folder))
        if not found:
            raise RecordError(f"{folder} holds no tuning log; make one with relay-int8 tune")
        for path in found:
            manifest = read_manifest(path)
            reason = manifest.refusal() or _other_target(manifest, config)
            if reason:
                self.refused[str(path)] = reason
            else:
                self._add(path, manifest)

    def __len__(self) -> int:
        return len(self._records)

    def schedule(self, task: Task, kernel: Kernel) -> Schedule | None:
        """Return the schedule that won for a kernel, or None where there is no record of it."""
        record = self._records.get(task.key)
        if record is None:
            return None
        if record.version != version(kernel):
            self.refused[f"{record.folder}, {task.template}"] = (
                "recorded with another version of the template; re-run relay-int8 tune"
            )
            return None
        choices = record.winner.choices
        return kernel.default() if choices is None else point(kernel, choices).schedule

    def _add(self, folder: Path, manifest: Manifest) -> None:
        for key, trials in by_task(read_trials(folder)).items():
            record = Record(
                winner=winner(trials), version=manifest.kernels.get(key, ""), folder=folder
            )
            known = self._records.get(key)
            if known is None or record.winner.seconds < known.winner.seconds:
                self._records[key] = record


def logs(folder: Path) -> Iterator[Path]:
    """Yield the folders of the logs in ``folder``, itself or below, in order of their names."""
    for path in sorted(folder.rglob(MANIFEST)):
        yield path.parent


def _other_target(manifest: Manifest, config: dict[str, object]) -> str | None:
    if dict(manifest.target) == config:
        return None
    return f"recorded for target {dict(manifest.target)}, this build is for {config}"
