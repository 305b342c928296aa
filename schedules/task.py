"""A kernel as the tuner names it: a template, what it computes, and in which layouts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from tvm import tirx
from tvm.target import Target

from schedules.catalog import TEMPLATES
from schedules.layout import LAYOUTS
from schedules.space import Kernel
from schedules.spec import Spec, from_json
from schedules.template import Layouts, ScheduleError, ScheduleTemplate

MISREAD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a key of another version, or a damaged one, raises as it is read."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One kernel, by what it computes: the same in every network that has it.

    ``spec`` is JSON; ``layouts`` are those of the inputs, then of the output; ``occurrences`` is
    how often the network calls it, and ``layers`` the tensors that it computes there: both are no
    part of its identity.
    """

    template: str
    spec: str
    layouts: tuple[str, ...]
    occurrences: int = 1
    layers: tuple[str, ...] = ()

    @classmethod
    def from_key(cls, key: str, occurrences: int = 1) -> Task:
        """Return the task of a :attr:`key`; ScheduleError if no kernel here has such a key."""
        try:
            template, spec, layouts = json.loads(key)
            task = cls(
                template=template, spec=spec, layouts=tuple(layouts), occurrences=occurrences
            )
            task.operator.shape("y")
            known = bool(layouts) and all(name in LAYOUTS for name in layouts)
        except MISREAD as error:
            raise ScheduleError(f"{key[:200]} is no kernel: {error}") from error
        if not known:
            raise ScheduleError(f"{key[:200]} is no kernel: its layouts are unknown")
        return task

    @property
    def key(self) -> str:
        """Identity, as text."""
        return task_key(self.template, self.spec, self.layouts)

    @property
    def title(self) -> str:
        """What it computes, for a table: its kind, its output's shape, its window's."""
        spec = self.operator
        shape = "x".join(str(size) for size in spec.shape("y"))
        window = getattr(spec, "kernel", None)
        return f"{spec.kind} {shape}" + (f" {window[0]}x{window[1]}" if window else "")

    @property
    def title_of_layer(self) -> str:
        """The title and the first of its layers, which tells kernels of one title apart."""
        more = f" +{len(self.layers) - 1}" if len(self.layers) > 1 else ""
        return f"{self.title}, {self.layers[0]}{more}" if self.layers else self.title

    @cached_property
    def operator(self) -> Spec:
        """What it computes."""
        return from_json(self.spec)

    def kernel(
        self,
        target: Target,
        templates: Mapping[str, ScheduleTemplate] = TEMPLATES,
        made: tirx.PrimFunc | None = None,
    ) -> Kernel:
        """Return the kernel on ``target``; ``made`` is its function, where that is at hand."""
        *inputs, output = (LAYOUTS[name] for name in self.layouts)
        return Kernel(
            template=templates[self.template],
            spec=self.operator,
            layouts=Layouts(inputs=tuple(inputs), output=output),
            target=target,
            made=made,
        )


def task_key(template: str, spec: str, layouts: Iterable[str]) -> str:
    """Return the identity of a kernel, as text."""
    return json.dumps([template, spec, list(layouts)])
