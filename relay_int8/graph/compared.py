"""The tensors by which a quantized network is compared with FP32 in decibels.

They are its results. But a result behind a suppression of boxes is a choice of boxes in the order
of their scores: a change of the last digit gives other boxes in other rows, and a difference of
rows says nothing. What the suppression reads is compared in place of what it chooses.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import IRModule, relax

from relay_int8.graph import dataflow
from relay_int8.graph.spec_calls import operands, spec_of
from schedules.spec import Suppression


def compared_tensors(func: relax.Function) -> dict[str, str]:
    """Return the names of the tensors to compare, each with the suppression that reads it, or "".

    Scores come before boxes; labels of boxes, which are classes, are left out. Of a suppression
    that reads what another one has chosen, that other one's operands are compared.
    """
    values = dict(dataflow.calls(func))
    chosen: set[relax.Expr] = set()
    for var, value in values.items():
        if _suppression(value) or any(arg in chosen for arg in dataflow.arguments(value)):
            chosen.add(var)
    found: dict[str, str] = {}
    pending: list[tuple[relax.Expr, str]] = [(var, "") for var in dataflow.results(func)]
    seen: set[relax.Expr] = set()
    while pending:
        var, reader = pending.pop(0)
        if var in seen:
            continue
        seen.add(var)
        if var not in chosen:
            if var in values or not reader:  # an input of the network is the same in both
                found.setdefault(str(var.name), reader)
            continue
        read, reader = _read(values[var], str(var.name), reader)
        pending[:0] = [
            (arg, reader)
            for arg in read
            if isinstance(arg, relax.Var) and (arg in chosen or _suppression(values[var]))
        ]
    return found or {str(var.name): "" for var in dataflow.results(func)}


def _read(value: relax.Expr, name: str, reader: str) -> tuple[Sequence[relax.Expr], str]:
    """Return what an expression reads that is to be compared, and the suppression it is read by."""
    spec = _suppression(value)
    if spec is None:
        return dataflow.arguments(value), reader
    tensors = dict(zip(spec.tensors, operands(value, spec)[0], strict=True))
    return [tensors["scores"], tensors["boxes"]], name


def _suppression(value: relax.Expr) -> Suppression | None:
    spec = spec_of(value)
    return spec if isinstance(spec, Suppression) else None


def returning(mod: IRModule, names: Sequence[str]) -> IRModule:
    """Return ``mod`` with the tensors ``names`` as its outputs, each as its readers see it.

    That is through its Q/DQ pair, if it has one; of several tensors in one, the first.
    """
    func = mod["main"]
    writer, paired = dataflow.FunctionWriter(func=func), dataflow.quantized_pairs(func)
    tensors: dict[str, relax.Var] = {str(param.name): param for param in func.params}
    done: dict[relax.Var, relax.Expr] = {}
    for var, value in dataflow.calls(func):
        done[var] = writer.emit(str(var.name), dataflow.substitute(value, done))
        tensors[str(var.name)] = var
    seen = [paired.get(tensors[name], tensors[name]) for name in names]
    outputs = [done.get(var, var) for var in seen]
    for index, var in enumerate(outputs):
        if isinstance(var.ty, relax.TupleType):
            outputs[index] = writer.derive(f"{var.name}:0", relax.TupleGetItem(var, 0))
    return writer.finish(func.params, outputs, dataflow.attributes(func))
