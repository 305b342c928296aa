"""The element type that PyTorch computes with where operands have different ones.

Categories are bool, integers, floats, of which only float32 is left after the import. Tensors with
axes decide; one without axes, or a number, counts only where its category is higher.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.step import TorchStep
from relay_int8.graph.dataflow import dtype, shape

CATEGORIES = {"b": 0, "u": 1, "i": 1, "f": 2}
NUMBERS = {bool: "bool", int: "int64", float: "float32"}


def common_type(operands: list[relax.Expr | bool | int | float]) -> str:
    """Return the element type of a result; that of a number alone is torch's default."""
    ranked: list[list[str]] = [[], [], []]
    for operand in operands:
        if isinstance(operand, relax.Expr):
            ranked[0 if shape(operand) else 1].append(dtype(operand))
        else:
            ranked[2].append(NUMBERS[type(operand)])
    common = ""
    for kinds in ranked:
        wider = str(np.result_type(*kinds)) if kinds else ""
        wider = "float32" if wider == "float64" else wider
        if wider and (not common or _category(wider) > _category(common)):
            common = wider
    return common


def _category(kind: str) -> int:
    return CATEGORIES[np.dtype(kind).kind]


def promoted(step: TorchStep, *names: str, least: str = "bool") -> list[relax.Expr]:
    """Return operands, tensors or numbers, in their common type, or in ``least`` if it is more."""
    given = [step.arguments.get(name) for name in names]
    operands = [
        value if isinstance(value, bool | int | float) else step.tensor(name)
        for name, value in zip(names, given, strict=True)
    ]
    kind = common_type(operands)
    kind = least if _category(kind) < _category(least) else kind
    return [as_type(step, operand, kind) for operand in operands]


def as_type(step: TorchStep, operand: relax.Expr | bool | int | float, kind: str) -> relax.Expr:
    """Return an operand as ``kind``; a number becomes a constant."""
    if not isinstance(operand, relax.Expr):
        return relax.const(np.asarray(operand, kind), kind)
    if dtype(operand) == kind:
        return operand
    return step.emit(kind, relax.op.astype(operand, kind))
