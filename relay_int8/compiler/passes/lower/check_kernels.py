"""Refuse a module in which an accumulator leaves its kernel.

Place:  after ScheduleKernels.
Exact:  changes nothing.

Every kernel of a template rounds its int32 accumulators to 8 bits (or to float32) in registers. An
int32 tensor behind it means that an epilogue was left behind, which is four times the memory
traffic and a different rounding place. Counts of an observed tensor are results, and may leave;
TVM's own kernels compute indices and masks, and suppression numbers of boxes, which may be int32.
"""

from __future__ import annotations

import tvm
from tvm import IRModule, relax, tirx

from relay_int8.errors import UnsupportedOpError
from relay_int8.graph import dataflow
from relay_int8.graph.attributes import SPEC, TEMPLATE
from schedules.spec import Suppression, from_json


@tvm.transform.module_pass(opt_level=0, name="CheckKernels")
class CheckKernels:
    """Refuse a module in which an accumulator leaves its kernel."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` unchanged.

        Raises
        ------
        UnsupportedOpError
            If a kernel reads int32 activations that a kernel of a template wrote.
        """
        func = mod["main"]
        written = {
            var: value
            for var, value in dataflow.calls(func)
            if dataflow.operator(value) == "call_tir" and isinstance(var.ty, relax.TensorType)
        }
        accumulating = {var for var, value in written.items() if _accumulates(mod[value.args[0]])}
        for var, value in written.items():
            for argument in dataflow.arguments(value):
                if argument in accumulating and dataflow.dtype(argument) == "int32":
                    raise UnsupportedOpError(
                        f"{argument.name} is an int32 tensor between two kernels, read by "
                        f"{var.name}; its requantize must be part of the kernel that makes it"
                    )
        return mod


def _accumulates(func: tirx.PrimFunc) -> bool:
    """Say whether a template wrote a kernel whose int32 result would be a sum."""
    spec = from_json(str(func.attrs[SPEC])) if SPEC in func.attrs else None
    return TEMPLATE in func.attrs and not isinstance(spec, Suppression)
