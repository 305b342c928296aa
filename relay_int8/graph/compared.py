"""The tensors by which a quantized network is compared with FP32 in decibels.

They are its results. But a result behind a suppression of boxes, or another choice by scores, is
rows in the order of these: a change of the last digit gives other boxes in other rows, and a
difference of rows says nothing. What is chosen from is compared in place of what is chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tvm import IRModule, relax

from relay_int8.graph import dataflow
from relay_int8.graph.spec_calls import operands, spec_of
from schedules.spec import Suppression

GATHERS = frozenset({"gather_elements", "gather_nd", "take"})
"""Operators that read rows which something has chosen."""
PARTS = frozenset({"reshape", "strided_slice", "take"})
"""Operators that give a part of a tensor, at constant places."""


def compared_tensors(func: relax.Function) -> dict[str, str]:
    """Return the names of the tensors to compare, each with the suppression that reads it, or "".

    Scores come before boxes; labels of boxes, which are classes, are left out. Of a suppression
    that reads what another one has chosen, that other one's operands are compared, and what rows
    were taken from. In place of truth values stands what they were found of, in place of several
    parts of one tensor (as SSD has the scores of each class) that tensor.
    """
    values = dict(dataflow.calls(func))
    chosen, suppressed = chosen_tensors(func), chosen_tensors(func, of_boxes=True)
    found: dict[relax.Var, str] = {}
    pending: list[tuple[relax.Expr, str]] = [(var, "") for var in dataflow.results(func)]
    seen: set[relax.Expr] = set()
    while pending:
        var, reader = pending.pop(0)
        if var in seen:
            continue
        seen.add(var)
        if var not in chosen:
            if reader and _is_truth(var, values):
                pending[:0] = [(arg, reader) for arg in _variables(values[var])]
            elif var in values or not reader:  # an input of the network is the same in both
                found.setdefault(var, reader)
            continue
        value = values[var]
        read, reader = _read(value, str(var.name), reader)
        is_gathered = dataflow.operator(value) in GATHERS and var not in suppressed
        chooses = _suppression(value) is not None or is_gathered
        pending[:0] = [
            (arg, reader)
            for arg in read
            if arg in chosen or (chooses and arg in values and not _is_index(arg))
        ]
    named = {str(var.name): reader for var, reader in _whole(found, values).items()}
    return named or {str(var.name): "" for var in dataflow.results(func)}


def _whole(
    found: Mapping[relax.Var, str], values: Mapping[relax.Var, relax.Expr]
) -> dict[relax.Var, str]:
    """Return tensors with one in place of all its parts, where there are several alike."""
    parts = {
        var: (_whole_of(var, values) if reader else var, dataflow.shape(var))
        for var, reader in found.items()
    }
    counts = Counter(parts.values())
    whole: dict[relax.Var, str] = {}
    for var, reader in found.items():
        whole.setdefault(parts[var][0] if counts[parts[var]] > 1 else var, reader)
    return whole


def _whole_of(var: relax.Var, values: Mapping[relax.Var, relax.Expr]) -> relax.Var:
    """Return the tensor that another one is a part of."""
    while dataflow.operator(values[var]) in PARTS:
        read = _variables(values[var])
        if len(read) != 1 or read[0] not in values:
            break
        var = read[0]
    return var


def chosen_tensors(func: relax.Function, *, of_boxes: bool = False) -> set[relax.Expr]:
    """Return the tensors behind a choice by scores, whose rows are others after a small change.

    With ``of_boxes`` only those behind one that compares boxes, of which what it reads tells all.
    """
    chosen: set[relax.Expr] = set()
    for var, value in dataflow.calls(func):
        spec = _suppression(value)
        chooses = spec is not None and (spec.compares or not of_boxes)
        if chooses or any(arg in chosen for arg in dataflow.arguments(value)):
            chosen.add(var)
    return chosen


def _read(value: relax.Expr, name: str, reader: str) -> tuple[Sequence[relax.Var], str]:
    """Return what an expression reads that is to be compared, and the suppression it is read by."""
    spec = _suppression(value)
    if spec is None:
        return _variables(value), reader
    tensors = dict(zip(spec.tensors, operands(value, spec)[0], strict=True))
    compared = [tensors[key] for key in ("scores", "boxes") if key in tensors]
    return [tensor for tensor in compared if isinstance(tensor, relax.Var)], name


def _variables(value: relax.Expr) -> list[relax.Var]:
    return [arg for arg in dataflow.arguments(value) if isinstance(arg, relax.Var)]


def _is_index(tensor: relax.Expr) -> bool:
    """Whether a tensor holds numbers of classes or places, which have no digits to lose."""
    return "int" in dataflow.dtype(tensor)


def _is_truth(var: relax.Var, values: Mapping[relax.Var, relax.Expr]) -> bool:
    """Whether a tensor holds truth values, be it as numbers or in another shape."""
    while dataflow.dtype(var) != "bool":
        value = values.get(var)
        if value is None or dataflow.operator(value) not in ("astype", "reshape"):
            return False
        (var,) = _variables(value) or (None,)
        if var is None:
            return False
    return var in values


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
