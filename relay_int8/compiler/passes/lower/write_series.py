"""Write functions of float islands as series that compilers vectorize.

    Before:  y[i] = exp(x[i])                  a call of the C library for each element
    After:   y[i] = let t0 = ... in ...        some twenty operations on a vector of elements

Place:  after InlineIslands, on CPUs; kernels of a template have functions of their own.
Exact:  within float rounding of the C library's (``schedules.bodies.series``), and with the same
        bits on every CPU.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import IRModule, tirx

from relay_int8.compiler.islands import rewrite_islands
from schedules.bodies.series import FUNCTIONS


@tvm.transform.module_pass(opt_level=0, name="WriteSeries")
class WriteSeries:
    """Write functions of float islands as series that compilers vectorize."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with such functions written out; ``mod`` itself is left alone."""
        return rewrite_islands(mod, _rewritten)


def _rewritten(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Write the functions out; not where floats become int64, as places in tables do.

    TVM 0.27 asks there in which range integers are, and gives up where the integers of a series
    stand between.
    """
    casts: list[tirx.Cast] = []
    tvm_ffi.structural_walk(func.body, (tirx.Cast, casts.append))
    kinds = {(str(cast.value.ty.dtype)[:5], str(cast.ty.dtype)) for cast in casts}
    if ("float", "int64") in kinds:
        return func
    written: tirx.PrimFunc = tvm_ffi.structural_map(func, (tvm.ir.Call, _written))
    return written


def _written(call: tvm.ir.Call) -> tvm.ir.Expr:
    name = str(getattr(call.op, "name", "")).removeprefix("tirx.")
    if name not in FUNCTIONS or str(call.ty.dtype) != "float32":
        return call
    return FUNCTIONS[name](call.args[0])
