"""Expressions that LLVM and CUDA spell differently.

Kernels are written once, with LLVM's intrinsics; ``for_cuda`` turns them into device functions of
the same result. What else they use (nearbyint, min, max, true division) CUDA C has as it is.
"""

from __future__ import annotations

import tvm_ffi
from tvm import ir, tirx
from tvm.target.codegen import llvm_lookup_intrinsic_id
from tvm.tirx import Expr

from schedules.template import ScheduleError

DEVICE_FUNCTIONS = {
    "llvm.fma": "__fmaf_rn",  # rounded once
    "llvm.lrint": "__float2int_rn",  # half to even; out of range it saturates
}
_CALL = "tirx.call_llvm_pure_intrin"


def for_cuda(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return ``func`` with device functions of CUDA in place of LLVM's intrinsics.

    Raises
    ------
    ScheduleError
        For an intrinsic without a device function, or on vectors.
    """
    names = {
        llvm_lookup_intrinsic_id(intrinsic): name for intrinsic, name in DEVICE_FUNCTIONS.items()
    }

    def _translated(call: ir.Call) -> Expr:
        if getattr(call.op, "name", "") != _CALL:
            return call
        identifier, *arguments = call.args
        dtype = call.ty.dtype
        if int(identifier) not in names or int(dtype.lanes) > 1:
            raise ScheduleError(f"{call}: has no device function; known are {DEVICE_FUNCTIONS}")
        return tirx.call_pure_extern(str(dtype), names[int(identifier)], *arguments)

    return tvm_ffi.structural_map(func, (ir.Call, _translated))
