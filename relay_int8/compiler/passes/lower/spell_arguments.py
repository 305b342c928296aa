"""Rename arguments and memory of kernels to identifiers of CUDA C.

    Before:  TVM's kernel of a float island takes "/conv1/logits", as the tensor is called
    After:   it takes "__conv1_logits"

    Before:  sums of the tensor "/norm/square" are in shared memory of that name
    After:   they are in "__norm_square"

Place:  after the loops of float islands on a GPU; code generation writes the names as they are.
Exact:  bit-identical: names only.
"""

from __future__ import annotations

import re

import tvm
import tvm_ffi
from tvm import IRModule, ir, tirx


@tvm.transform.module_pass(opt_level=0, name="SpellArguments")
class SpellArguments:
    """Give variables names that CUDA C can write: TVM takes a tensor's, as in "/conv1/logits"."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with other names; ``mod`` itself is left alone."""
        mod = mod.clone()
        for gvar, func in mod.functions_items():
            if isinstance(func, tirx.PrimFunc) and (odd := _odd_variables(func)):
                mod[gvar] = _spelled(func, odd)
        return mod


def _odd_variables(func: tirx.PrimFunc) -> list[ir.Var]:
    """Return the variables of a kernel, its memory too, whose names are no identifiers."""
    found: list[ir.Var] = [*func.params]
    tvm_ffi.structural_walk(func.body, (ir.Var, found.append))
    return list(dict.fromkeys(var for var in found if not str(var.name).isidentifier()))


def _spelled(func: tirx.PrimFunc, odd: list[ir.Var]) -> tirx.PrimFunc:
    names = {var: ir.Var("_" + re.sub(r"\W", "_", str(var.name)), var.ty) for var in odd}
    return tvm_ffi.structural_map(func, (ir.Var, lambda var: names.get(var, var)))
