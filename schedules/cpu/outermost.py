"""The schedule of kernels that need no other: threads share the outermost loop."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.bodies.body import template_blocks


def share_outermost(sch: Schedule, spec: Any, target: Target) -> None:
    """Give blocks of channels, or tasks, to threads."""
    (block,) = template_blocks(sch)
    sch.parallel(sch.get_loops(block)[0])
