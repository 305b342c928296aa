"""Kernels whose loops are written for a few choices: a schedule notes these, and nothing else.

What is scheduled is the kernel for some choices, and ``finish`` writes it for those noted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.s_tir import SBlock, Schedule

from schedules.bodies.body import template_blocks
from schedules.spec import Spec
from schedules.spec.text import from_json

# Both names are part of the fingerprints to which tuning records are bound.
CHOICES, SPEC = "dealt_out", "spec"


def note(sch: Schedule, choices: Sequence[Any]) -> None:
    """Note ``choices``, whole numbers or what MetaSchedule samples, at the kernel's block."""
    (block,) = template_blocks(sch)
    sch.annotate(block, CHOICES, list(choices))


def sampled(sch: Schedule, options: Sequence[int]) -> Any:
    """Return one of ``options`` as MetaSchedule samples it."""
    return sch.sample_categorical(list(options), [1 / len(options)] * len(options))


def written(func: tirx.PrimFunc, write: Callable[[Any, list[int]], tirx.PrimFunc]) -> tirx.PrimFunc:
    """Return ``write(spec, choices)`` for what a scheduled kernel notes, with its attributes."""
    spec, choices = noted(func)
    return write(spec, choices).with_attr(dict(func.attrs))


def notes_with(func: tirx.PrimFunc, name: str) -> Mapping[str, Any] | None:
    """Return the notes of the block that has one of this name, or None."""
    blocks: list[SBlock] = []
    tvm_ffi.structural_walk(func.body, (SBlock, blocks.append))
    return next((block.annotations for block in blocks if name in block.annotations), None)


def noted(func: tirx.PrimFunc) -> tuple[Spec, list[int]]:
    """Return the spec of a scheduled kernel, which its block says as JSON, and the choices."""
    notes = notes_with(func, CHOICES)
    assert notes is not None
    return from_json(str(notes[SPEC])), [int(value) for value in notes[CHOICES]]
