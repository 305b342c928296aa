"""The interface of a schedule template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target
from tvm_ffi import register_error

from schedules.layout import Layout

Arrays = dict[str, np.ndarray]
AnySpec = Any  # the one class of schedules.spec that a template's kind names
Measured = Callable[[str, AnySpec], float | None]
"""``(template, spec)`` -> seconds on some target, None where they are not known."""


@register_error
class ScheduleError(ValueError):
    """No template computes a kernel on the target; the message says why.

    Registered, so that it keeps its class on its way through TVM's C++.
    """


@dataclass(frozen=True, kw_only=True)
class Layouts:
    """The layout of each activation a kernel reads, in the order of ``spec.tensors``, and of y."""

    inputs: tuple[Layout, ...]
    output: Layout


def not_measured(_template: str, _spec: AnySpec) -> None:
    """Return that no time is known."""


def _not_known(_choices: Sequence[Any]) -> None:
    """Return that choices alone do not show whether a block is too large."""


def _as_it_is(spec: AnySpec, params: Arrays) -> Arrays:
    return params


def _of_one_size(spec: AnySpec, layouts: Layouts) -> tuple[AnySpec, Layouts]:
    return spec, layouts


def _as_scheduled(func: tirx.PrimFunc) -> tirx.PrimFunc:
    return func


@dataclass(frozen=True, kw_only=True)
class ScheduleTemplate:
    """One kernel on one instruction set: what it computes, and in which order.

    Parameters
    ----------
    name
        Stable identifier: the kernel's block annotation ``{"template": name}`` carries it.
    kind
        The ``kind`` of the specs it computes.
    refuses
        ``(spec, target)`` -> why the template cannot be used, or None.
    layouts
        ``(spec, wanted)`` -> the layouts it works in, where ``wanted`` are those that would cost
        no repack (a template of fixed layouts ignores it).
    kernel
        ``(spec, layouts)`` -> unscheduled private PrimFunc, arguments in the order tensors, params,
        y, all in physical shapes with int64 extents.
    default
        ``(sch, spec, target)``: apply fixed tiles, by a rule; samples nothing.
    space
        ``(sch, spec, target)``: apply the same loops with tiles MetaSchedule samples.
    pack
        ``(spec, params)`` -> the constants as ``kernel`` reads them, from their logical form;
        corrections that the instruction needs (zero point, sign) are folded into the bias here.
    general
        ``(spec, layouts)`` -> those of the kernel that computes it for tensors of any size, in the
        same memory, so that calls of many sizes are compiled once; by default itself.
    crowded
        The choices of a point -> why no block of a GPU can hold what they ask for, or None where
        that is seen only in the loops: spares making loops that cannot run.
    finish
        Scheduled PrimFunc -> what is compiled: adds what no scheduling instruction can.
    """

    name: str
    kind: str
    refuses: Callable[[AnySpec, Target], str | None]
    layouts: Callable[[AnySpec, Layouts], Layouts]
    kernel: Callable[[AnySpec, Layouts], tirx.PrimFunc]
    default: Callable[[Schedule, AnySpec, Target], None]
    space: Callable[[Schedule, AnySpec, Target], None]
    pack: Callable[[AnySpec, Arrays], Arrays] = field(default=_as_it_is)
    general: Callable[[AnySpec, Layouts], tuple[AnySpec, Layouts]] = field(default=_of_one_size)
    crowded: Callable[[Sequence[Any]], str | None] = field(default=_not_known)
    finish: Callable[[tirx.PrimFunc], tirx.PrimFunc] = field(default=_as_scheduled)
