"""Fuse float operators into kernels, and keep the names of the tensors between them.

    Before:  b = call_tir(sin, a);  c = call_tir(exp, b)
    After:   c = fused_sin_exp(a)

Place:  after LegalizeOps and AnnotateTIROpPattern; FuseTIR makes one PrimFunc of each group.
Exact:  as TVM's FuseOps is, which calls what a group gives ``lv`` or ``gv``.
"""

from __future__ import annotations

import tvm
from tvm import IRModule, relax

from relay_int8.graph import dataflow

Key = tuple[object, ...]


@tvm.transform.module_pass(opt_level=0, name="FuseIslands")
class FuseIslands:
    """Fuse float operators into kernels, and keep the names of the tensors between them."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with groups of operators fused; ``mod`` itself is left alone."""
        fused = relax.transform.FuseOps()(mod.clone())
        names = _names(mod["main"], fused)
        func = fused["main"]
        writer = dataflow.FunctionWriter(fused)
        done: dict[relax.Var, relax.Expr] = {}
        for var, value in dataflow.calls(func):
            done[var] = writer.emit(names[var], dataflow.substitute(value, done))
        outputs = [done.get(var, var) for var in dataflow.results(func)]
        return writer.finish(func.params, outputs, dataflow.attributes(func))


def _names(func: relax.Function, fused: IRModule) -> dict[relax.Var, str]:
    """Return the names of the fused ``main``'s variables: those of ``func`` that they are."""
    main = fused["main"]
    computed = {_key(value, {}): str(var.name) for var, value in dataflow.calls(func)}
    names = {param: str(param.name) for param in main.params}
    for var, value in dataflow.calls(main):
        names[var] = str(var.name)
        if isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.GlobalVar):
            group = fused[value.op]
            steps, (result, *more) = dict(dataflow.calls(group)), dataflow.results(group)
            if result in steps and not more:  # the only step that FuseOps has renamed
                reads = dict(zip(group.params, value.args, strict=True))
                known = {param: names[arg] for param, arg in reads.items() if arg in names}
                names[var] = computed.get(_key(steps[result], known), names[var])
    return names


def _key(value: relax.Expr, known: dict[relax.Var, str]) -> Key:
    """Return what an expression computes of which tensors; ``known``: what other names mean."""
    called, reads = "", list[object]()
    for argument in dataflow.arguments(value):
        if isinstance(argument, tvm.ir.GenericConst):
            reads.append(argument)  # FuseOps copies none
        elif isinstance(argument, tvm.ir.GlobalVar):
            called = str(argument.name_hint)
        elif isinstance(argument, relax.Var):
            reads.append(known.get(argument, str(argument.name)))
    return dataflow.operator(value), called, *reads
