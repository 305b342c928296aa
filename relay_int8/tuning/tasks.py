"""The tuning tasks of a network: its distinct kernels."""

from __future__ import annotations

from collections.abc import Iterable

from relay_int8.compiler.kernel_calls import KernelCall
from schedules.spec import to_json
from schedules.task import Task


def tasks_of(calls: Iterable[KernelCall]) -> tuple[Task, ...]:
    """Return the distinct kernels of a compiled network, in the order of their first call.

    Kernels of float islands, which have no template, and of a symbolic batch are left out.
    """
    layers: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for call in calls:
        if call.spec is not None and call.spec.is_static:
            kernel = (call.template, to_json(call.spec), call.layouts)
            layers.setdefault(kernel, []).append(call.tensor or call.name)
    return tuple(
        Task(
            template=template,
            spec=spec,
            layouts=layouts,
            occurrences=len(names),
            layers=tuple(dict.fromkeys(names)),
        )
        for (template, spec, layouts), names in layers.items()
    )
