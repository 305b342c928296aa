"""Loops for kernels that have no template: TVM's own, of float islands, on a GPU."""

from __future__ import annotations

from tvm.ir.transform import Pass
from tvm.s_tir import dlight
from tvm.target import Target


def schedule_islands(target: Target) -> list[Pass]:
    """Return the passes that give the kernels of float islands to threads; none on a CPU.

    Kernels that are scheduled already stay as they are.
    """
    if target.kind.name != "cuda":
        return []
    rules = (dlight.gpu.Reduction(), dlight.gpu.GeneralReduction(), dlight.gpu.Fallback())
    return [dlight.ApplyDefaultSchedule(*rules)]
