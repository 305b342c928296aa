"""The layout-independent definition of an operator, which targets give their loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from schedules.spec import Spec
from schedules.template import AnySpec, Layouts, ScheduleError


def symbolic_axis(spec: Spec) -> str | None:
    """Say which axis but the first is symbolic, or None."""
    for name in (*spec.tensors, "y"):
        symbolic = [not isinstance(size, int) for size in spec.shape(name)]
        if any(symbolic[1:]):
            return f"axis {symbolic.index(True, 1)} of {name} is symbolic; only axis 0 may be"
    return None


@dataclass(frozen=True, kw_only=True)
class Body:
    """One operator: its kernel before any loop is scheduled. A target makes a template of it.

    Parameters
    ----------
    kind
        The ``kind`` of the specs it computes.
    layouts
        ``(spec, wanted)`` -> the layouts it works in, see ``ScheduleTemplate``.
    kernel
        ``(spec, layouts)`` -> unscheduled private PrimFunc; the block of y is annotated with
        ``template_name(kind)``.
    refuses
        ``spec`` -> why no target computes it so, or None.
    """

    kind: str
    layouts: Callable[[AnySpec, Layouts], Layouts]
    kernel: Callable[[AnySpec, Layouts], tirx.PrimFunc]
    refuses: Callable[[AnySpec], str | None] = symbolic_axis


def template_name(kind: str) -> str:
    """Return the name that marks the block of y, that of a CPU's template.

    Templates of other targets put theirs in its place. It is part of the structural hash of the
    kernel, to which tuning records are bound, so it is the same for all.
    """
    return f"{kind}_cpu"


def template_blocks(sch: Schedule) -> list[SBlockRV]:
    """Return the blocks of the kernel that carry a template's name."""
    blocks = sch.get_child_blocks(sch.get_sblock("root"))
    marked = [block for block in blocks if "template" in sch.get(block).annotations]
    if not marked:
        raise ScheduleError("no block carries a template's name; was the kernel scheduled before?")
    return marked
