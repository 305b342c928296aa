"""Loops for kernels that have no template: TVM's own, of float islands, on a GPU."""

from __future__ import annotations

import re

import tvm
import tvm_ffi
from tvm import IRModule, ir, tirx
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
    return [dlight.ApplyDefaultSchedule(*rules), SpellArguments()]


@tvm.transform.module_pass(opt_level=0, name="SpellArguments")
class SpellArguments:
    """Give arguments names that CUDA C can write: TVM takes a tensor's, as in "/conv1/logits"."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with other names; ``mod`` itself is left alone."""
        mod = mod.clone()
        for gvar, func in mod.functions_items():
            if isinstance(func, tirx.PrimFunc):
                odd = [var for var in func.params if not str(var.name).isidentifier()]
                if odd:
                    mod[gvar] = _spelled(func, odd)
        return mod


def _spelled(func: tirx.PrimFunc, odd: list[ir.Var]) -> tirx.PrimFunc:
    names = {var: ir.Var("_" + re.sub(r"\W", "_", str(var.name)), var.ty) for var in odd}
    return tvm_ffi.structural_map(func, (ir.Var, lambda var: names.get(var, var)))
