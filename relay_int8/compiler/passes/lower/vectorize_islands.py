"""Give the elements of float islands to vectors and threads, on a CPU.

    Before:  for a: for b: for c: y[a, b, c] = f(x[a, b, c], v[c])
    After:   parallel for ab: for c: y[a, b, c] = f(x[a, b, c], v[c])

Loops are those of our own kernels of elements (``schedules.cpu.elementwise``): trailing axes that
all tensors have side by side, or lack, are one loop, which LLVM vectorizes.

Place:  after ScheduleIslands, on CPUs; kernels of a template are scheduled already.
Exact:  bit-identical: elements are computed one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
import tvm_ffi
from tvm import IRModule, tirx
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from relay_int8.compiler.islands import reschedule, rewrite_islands
from relay_int8.compiler.reads import loads, variables
from schedules.cpu.elementwise import arrange

WORDS = ("float32", "int32")  # types that TVM's own vectors hold without conversions


@tvm.transform.module_pass(opt_level=0, name="VectorizeIslands")
class VectorizeIslands:
    """Give the elements of float islands to vectors and threads, on a CPU."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with such loops; ``mod`` itself is left alone."""
        return rewrite_islands(mod, lambda func: reschedule(func, _arranged))


def _arranged(sch: Schedule, block: SBlockRV) -> bool:
    """Arrange the loops of a block of independent elements; return whether it is one."""
    loops = _independent(sch, block)
    if loops:
        arrange(sch, loops, _run(sch.get(block)))
    return bool(loops)


def _independent(sch: Schedule, block: SBlockRV) -> list[LoopRV]:
    """Return the loops around elements that are computed one by one, of known extents; or none."""
    axes, loops = sch.get(block).iter_vars, list(sch.get_loops(block))
    if len(axes) != len(loops) or not loops:
        return []
    if any(int(axis.iter_type) != tirx.IterVar.DataPar for axis in axes):
        return []
    if len(sch.get_child_blocks(loops[0])) > 1:  # zeros in front of a sum, in the loops of the sum
        return []
    found = [sch.get(loop) for loop in loops]
    if any(loop.kind != tirx.ForKind.SERIAL for loop in found):
        return []
    return loops if all(isinstance(loop.extent, tirx.IntImm) for loop in found) else []


def _run(block: SBlock) -> int:
    """Return how many trailing axes all tensors have side by side, or lack."""
    if not isinstance(block.body, tirx.BufferStore):
        return 0
    touched = [(block.body.buffer, block.body.indices)]
    touched += [(load.source, load.indices) for load in loads(block.body)]
    if any(str(buffer.dtype) not in WORDS for buffer, _ in touched):
        return 0
    axes, run = list(block.iter_vars), 0
    while run < len(axes) and all(_has(*each, axes[-run - 1 :]) for each in touched):
        run += 1
    return run


def _has(buffer: tirx.Buffer, indices: Sequence[tirx.Expr], axes: Sequence[tirx.IterVar]) -> bool:
    """Say whether a tensor has ``axes`` as its own last ones, or none of them."""
    count = len(axes)
    own, shape = list(indices)[-count:], list(buffer.shape)[-count:]
    if len(own) == count and all(i.same_as(axis.var) for i, axis in zip(own, axes, strict=True)):
        return all(
            tvm_ffi.structural_equal(a, b.dom.extent) for a, b in zip(shape, axes, strict=True)
        )
    return not any(axis.var.same_as(var) for axis in axes for var in variables(list(indices)))
