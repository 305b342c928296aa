"""The same network for another batch."""

from __future__ import annotations

from tvm import IRModule, relax

from relay_int8 import graph


def batch_of(mod: IRModule) -> int:
    """Return the batch of a network: the first extent of its first input."""
    return graph.shape(mod["main"].params[0])[0]


def with_batch(mod: IRModule, batch: int) -> IRModule:
    """Return a normalized module with another batch; ``mod`` itself is left alone.

    Every input's first axis is the batch. Shapes are inferred again; a reshape that keeps the
    batch in front gets the new one.
    """
    old = batch_of(mod)
    if old == batch:
        return mod
    func = mod["main"]
    writer = graph.FunctionWriter()
    params = [
        relax.Var(
            param.name, relax.TensorType((batch, *graph.shape(param)[1:]), graph.dtype(param))
        )
        for param in func.params
    ]
    done: dict[relax.Var, relax.Expr] = dict(zip(func.params, params, strict=True))
    for var, value in graph.calls(func):
        if graph.operator(value) == "reshape" and graph.shape(var)[:1] == (old,):
            new = relax.op.reshape(done[value.args[0]], (batch, *graph.shape(var)[1:]))
        else:
            new = graph.substitute(value, done)
            if isinstance(new, relax.Call):
                new = relax.Call(new.op, new.args, new.attrs)
        done[var] = writer.emit(var.name, new)
    outputs = [done[var] for var in graph.results(func)]
    return writer.finish(params, outputs, graph.attributes(func))
