"""The interface of tuning records that a build uses."""

from __future__ import annotations

from typing import Protocol

from tvm.s_tir import Schedule

from schedules.space import Kernel
from schedules.spec import Spec
from schedules.task import Task


class TunedSchedules(Protocol):
    """Schedules that won when kernels were measured, and how long these took."""

    def schedule(self, task: Task, kernel: Kernel) -> Schedule | None:
        """Return the schedule that won for a kernel, or None where there is no record of it."""
        ...

    def seconds(self, template: str, spec: Spec) -> float | None:
        """Return the seconds of a kernel as it was tuned, None where there is no record of it."""
        ...
