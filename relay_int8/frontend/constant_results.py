"""Make results that no input goes into look computed, so that they stay results."""

from __future__ import annotations

import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import (
    FunctionWriter,
    arguments,
    calls,
    results,
    shape,
    substitute,
)


def keep_constant_results(mod: IRModule) -> IRModule:
    """Return a module without constant results; the module itself if it has none.

    Passes take what no input goes into for a weight, and fold it away; so would a result be. It
    becomes what a comparison of an input chooses, whatever its outcome.
    """
    func = mod["main"]
    computed = _computed(func)
    constants = list(dict.fromkeys(var for var in results(func) if var not in computed))
    if not constants:
        return mod
    writer = FunctionWriter(mod)
    written: dict[relax.Var, relax.Expr] = {}
    for var, value in calls(func):
        if isinstance(value, tvm.ir.GenericConst):  # a variable of its own would be compared too
            written[var] = value
            continue
        name = f"{var.name}/constant" if var in constants else str(var.name)
        written[var] = writer.emit(name, substitute(value, written))
    for var in constants:
        written[var] = _as_if_computed(writer, func.params[0], written[var], str(var.name))
    outputs = [written.get(var, var) for var in results(func)]
    return writer.finish(list(func.params), outputs)


def _computed(func: relax.Function) -> set[relax.Var]:
    """Return the inputs of a function, and all that is computed of them."""
    computed = set(func.params)
    for var, value in calls(func):
        if any(argument in computed for argument in arguments(value)):
            computed.add(var)
    return computed


def _as_if_computed(
    writer: FunctionWriter, x: relax.Var, value: relax.Expr, name: str
) -> relax.Var:
    axes = list(range(len(shape(x))))
    if axes:
        x = writer.emit(
            f"{name}/first", relax.op.strided_slice(x, axes, [0] * len(axes), [1] * len(axes))
        )
    x = writer.emit(f"{name}/scalar", relax.op.reshape(x, (1,) * len(shape(value))))
    outcome = writer.emit(f"{name}/outcome", relax.op.equal(x, x))
    return writer.emit(name, relax.op.where(outcome, value, value))
