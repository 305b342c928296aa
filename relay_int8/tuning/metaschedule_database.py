"""MetaSchedule's database of a log: its right trials, with their traces, for TVM's own tools."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.database import JSONDatabase, TuningRecord
from tvm.target import Target

from relay_int8.tuning.trial_log import Trial
from schedules.space import Kernel, point
from schedules.task import Task

FILES = ("database_workload.json", "database_tuning_record.json")


class Database:
    """The two files of MetaSchedule in the folder of a log.

    Parameters
    ----------
    trials
        What the log holds: the last that the files lack are added. Files that hold more than that,
        or are damaged, are written anew, which takes milliseconds for each trial.
    """

    def __init__(
        self, folder: Path, tasks: Mapping[str, Task], target: Target, trials: list[Trial]
    ) -> None:
        self._tasks, self._target = tasks, target
        workloads, records = (folder / name for name in FILES)
        right = [trial for trial in trials if trial.measured.verdict == "ok"]
        written = _whole_lines(records) if _whole_lines(workloads, is_cut=False) else 0
        if not 0 < written <= len(right):
            workloads.unlink(missing_ok=True)
            records.unlink(missing_ok=True)
            written = 0
        self._workloads: dict[str, tuple[Any, Any]] = {}
        self._database = JSONDatabase(str(workloads), str(records))
        for trial in right[written:]:
            self.append(trial)

    def append(self, trial: Trial) -> None:
        """Add a trial, if it is right."""
        if trial.measured.verdict != "ok":
            return
        kernel = self._tasks[trial.task].kernel(self._target)
        if trial.task not in self._workloads:
            mod = _module(kernel)
            workload = self._database.commit_workload(mod)
            self._workloads[trial.task] = workload, ArgInfo.from_prim_func(mod["main"])
        workload, args_info = self._workloads[trial.task]
        sch = kernel.default() if trial.choices is None else point(kernel, trial.choices).schedule
        seconds = list(trial.measured.seconds)
        record = TuningRecord(sch.trace, workload, seconds, self._target, args_info)
        self._database.commit_tuning_record(record)


def _whole_lines(path: Path, *, is_cut: bool = True) -> int:
    """Return how many lines a file has; a torn last one is cut off, or makes it none at all."""
    content = path.read_bytes() if path.exists() else b""
    length = content.rfind(b"\n") + 1
    if length != len(content):
        if not is_cut:
            return 0
        os.truncate(path, length)
    return content.count(b"\n")


def _module(kernel: Kernel) -> tvm.IRModule:
    """Return the private PrimFunc: with a name, it would be another key in every network."""
    return tvm.IRModule({"main": kernel.template.kernel(kernel.spec, kernel.layouts)})
