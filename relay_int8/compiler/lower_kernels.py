"""TVM's passes that take scheduled kernels to code for a CPU, in two parts.

TVM's own list serves GPUs too, whose passes take a tenth of the time and change nothing here. It
also writes every split of a loop anew (RenormalizeSplitPattern), which takes an eighth, and looks
for what does nothing (RemoveNoOp): LLVM gives the same machine code without. Without
CommonSubexprElim it does not.
"""

from __future__ import annotations

import tvm
from tvm import IRModule, s_tir, tirx
from tvm.ir.transform import Pass
from tvm.target import Target


def loop_passes() -> list[Pass]:
    """Return the passes that turn blocks into plain loops; tensors keep their axes.

    Nothing is unrolled yet.
    """
    return [
        s_tir.transform.CanonicalizeLoop(),
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
        s_tir.transform.CompactBufferAllocation(),
        s_tir.transform.LowerMatchBuffer(),
        s_tir.transform.StmtSimplify(),
        s_tir.transform.LowerOpaqueBlock(),
    ]


def code_passes() -> list[Pass]:
    """Return the passes that flatten memory, unroll and vectorize loops.

    Functions get the interface of a library.
    """
    return [
        tirx.transform.FlattenBuffer(),
        tirx.transform.BF16ComputeLegalize(),
        s_tir.transform.LoopPartition(),  # finds no bounds among narrowed indices
        tirx.transform.NarrowDataType(32),
        tirx.transform.VectorizeLoop(True),
        tirx.transform.StorageRewrite(),
        s_tir.transform.HoistIfThenElse(),
        tirx.transform.UnrollLoop(),
        tirx.transform.StmtSimplify(),
        s_tir.transform.RewriteUnsafeSelect(),
        tirx.transform.CommonSubexprElim(),
        tirx.transform.AnnotateEntryFunc(),
        tirx.transform.SplitHostDevice(),
        tirx.transform.MakePackedAPI(),
        tirx.transform.BF16StorageLegalize(),
        tirx.transform.LowerTVMBuiltin(),
        tirx.transform.LowerIntrin(),
    ]


def plain_loops(mod: IRModule, target: Target) -> IRModule:
    """Return scheduled kernels as plain loops, for a CPU."""
    bound = tirx.transform.BindTarget(target.with_host(target))(mod)
    return tvm.transform.Sequential(loop_passes(), name="loops")(bound)


def llvm_module(mod: IRModule, target: Target, *, checks: bool) -> tvm.runtime.Module:
    """Return the optimized LLVM code of kernels that are plain loops.

    With ``checks`` they check types, shapes and strides of their arguments.
    """
    passes = code_passes() if checks else [*code_passes(), tirx.transform.SkipAssert()]
    lowered = tvm.transform.Sequential(passes, name="code")(mod)
    return tvm.get_global_func("target.build.llvm")(lowered, target)
