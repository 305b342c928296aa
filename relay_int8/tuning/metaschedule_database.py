"""MetaSchedule's database of a log: its right trials, with their traces, for TVM's own tools."""

from __future__ import annotations

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
        What the log holds: files that hold something else are written anew.
    """

    def __init__(
        self, folder: Path, tasks: Mapping[str, Task], target: Target, trials: list[Trial]
    ) -> None:
        self._tasks, self._target = tasks, target
        workloads, records = (folder / name for name in FILES)
        right = [trial for trial in trials if trial.measured.verdict == "ok"]
        content = records.read_bytes() if records.exists() else b""
        is_stale = content.count(b"\n") != len(right) or not content.endswith(b"\n")
        if is_stale:
            workloads.unlink(missing_ok=True)
            records.unlink(missing_ok=True)
        self._workloads: dict[str, tuple[Any, Any]] = {}
        self._database = JSONDatabase(str(workloads), str(records))
        if is_stale:
            for trial in right:
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


def _module(kernel: Kernel) -> tvm.IRModule:
    """Return the private PrimFunc: with a name, it would be another key in every network."""
    return tvm.IRModule({"main": kernel.template.kernel(kernel.spec, kernel.layouts)})
