"""Float islands: kernels that TVM makes of float operators which no template computes."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir import SBlockRealize
from tvm.s_tir import ScheduleError as RefusedByTvm

from schedules.template import ScheduleError

SCHEDULED = "tirx.is_scheduled"
REFUSALS = (RefusedByTvm, ScheduleError)
"""What TVM's schedules raise: it finds errors by name, and ours is registered under the same."""


def is_island(func: tirx.PrimFunc) -> bool:
    """Say whether TVM has made a kernel of loops, and nobody has scheduled it.

    Calls of TVM's own functions, as of its sorting, have no block around everything.
    """
    has_loops = isinstance(func.body, SBlockRealize) and func.body.block.name_hint == "root"
    return has_loops and not (func.attrs and SCHEDULED in func.attrs)


def loads(code: object) -> list[tvm.ir.TensorLoad]:
    """Return the reads of a statement or an expression."""
    found: list[tvm.ir.TensorLoad] = []
    tvm_ffi.structural_walk(code, (tvm.ir.TensorLoad, found.append))
    return found


def variables(code: object) -> list[tvm.ir.Var]:
    """Return the variables that a statement or an expression reads, as often as it does."""
    found: list[tvm.ir.Var] = []
    tvm_ffi.structural_walk(code, (tvm.ir.Var, found.append))
    return found
