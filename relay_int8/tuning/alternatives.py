"""Kernels of other templates that could replace a network's; builds choose by time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tvm.target import Target

from schedules.layout import LAYOUTS
from schedules.selection import comparable
from schedules.task import Task
from schedules.template import Layouts


def alternatives(tasks: Iterable[Task], target: Target) -> tuple[Task, ...]:
    """Return tasks of the templates that were able but not chosen, as often as what they replace.

    Where times of all of them are on record, a build chooses by these. There are some on GPUs
    whose tensor cores compete with dp4a.
    """
    others = {other.key: other for task in tasks for other in _others(task, target)}
    return tuple(others.values())


def _others(task: Task, target: Target) -> Iterator[Task]:
    *inputs, output = (LAYOUTS[name] for name in task.layouts)
    wanted = Layouts(inputs=tuple(inputs), output=output)
    for template in comparable(task.operator, target):
        if template.name != task.template:
            layouts = template.layouts(task.operator, wanted)
            yield Task(
                template=template.name,
                spec=task.spec,
                layouts=tuple(layout.name for layout in (*layouts.inputs, layouts.output)),
                occurrences=task.occurrences,
                layers=task.layers,
            )
