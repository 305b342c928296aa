"""Trees of elementwise operators that are one function of one tensor, such as hard-swish.

    y = x * clip(x + 3, 0, 6) / 6

An activation that starts a tree is left to the epilogue of whatever computes its operand, unless
others read the operand too, as in ELU; a tree with a value that is read elsewhere is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.numerics.unary import NON_NEGATIVE, UNARY

Array = np.ndarray

_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "divide": np.divide,
    "equal": np.equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "power": np.power,
    "subtract": np.subtract,
}
_TERNARY: dict[str, Callable[[Array, Array, Array], Array]] = {"where": np.where}
_ACTIVATIONS = ("nn.relu", "clip", "nn.leakyrelu")


@dataclass(frozen=True)
class FunctionSubgraph:
    """``members`` compute the last one of them from ``source``, element by element."""

    source: relax.Var
    members: tuple[tuple[relax.Var, relax.Call], ...]

    def __call__(self, x: Array) -> Array:
        """Return the function of float64 ``x``."""
        values: dict[relax.Var, Array] = {self.source: x}
        for var, call in self.members:
            values[var] = _evaluate(call, values)
        return values[self.members[-1][0]]

    @property
    def is_non_negative(self) -> bool:
        """Whether its last operator shows that its values are never negative."""
        call = self.members[-1][1]
        name = dataflow.operator(call)
        return name in (*NON_NEGATIVE, "nn.relu") or (name == "clip" and _scalar(call.args[1]) >= 0)


def find_functions(
    values: Mapping[relax.Var, relax.Expr],
    readers: Mapping[relax.Var, list[relax.Var]],
    results: set[relax.Var],
    biases: Collection[relax.Var] = (),
) -> list[FunctionSubgraph]:
    """Return the composed functions among ``values`` (in topological order), none overlapping.

    ``biases`` belong to something else: additions to a convolution, though one channel's is a
    scalar, and the arithmetic of :mod:`relay_int8.graph.channel_affine`.
    """
    source: dict[relax.Var, relax.Var] = {}
    for var, value in values.items():
        if var in biases:
            continue
        root = _source(value, source, readers)
        if root is not None and dataflow.shape(root) == dataflow.shape(var):
            source[var] = root
    functions = []
    for var in source:
        inside = [reader for reader in readers[var] if source.get(reader) == source[var]]
        if var not in results and len(inside) == len(readers[var]):
            continue
        if dataflow.dtype(var) != dataflow.dtype(source[var]):
            continue  # a comparison: what chooses by it reads something else too
        members = _members(var, values, source)
        interior = {member for member in members if not member.same_as(var)}
        if interior & results or any(
            not set(readers[member]) <= set(members) for member in interior
        ):
            continue
        if len(members) > 1 or dataflow.operator(values[var]) in _BINARY:
            functions.append(FunctionSubgraph(source[var], tuple((m, values[m]) for m in members)))
    return functions


def _source(
    value: relax.Expr,
    source: Mapping[relax.Var, relax.Var],
    readers: Mapping[relax.Var, list[relax.Var]],
) -> relax.Var | None:
    """Return the tensor that an elementwise call is a function of, or None."""
    name = dataflow.operator(value)
    if not any(name in known for known in (UNARY, _BINARY, _TERNARY, _ACTIVATIONS)):
        return None
    roots = set()
    for argument in value.args:
        if isinstance(argument, relax.Var):
            starts = name in _ACTIVATIONS and argument not in source
            if starts and len(readers[argument]) == 1:
                return None
            roots.add(source.get(argument, argument))
        elif _is_tensor(argument):
            return None
    return roots.pop() if len(roots) == 1 else None


def _is_tensor(value: relax.Expr) -> bool:
    array = dataflow.constant(value)
    return array is not None and array.size != 1


def _members(
    root: relax.Var,
    values: Mapping[relax.Var, relax.Call],
    source: Mapping[relax.Var, relax.Var],
) -> list[relax.Var]:
    """Return the operators between a root and its source, in topological order."""
    wanted, stack = {root}, [root]
    while stack:
        for argument in values[stack.pop()].args:
            if source.get(argument) == source[root] and argument not in wanted:
                wanted.add(argument)
                stack.append(argument)
    return [var for var in values if var in wanted]


def _evaluate(call: relax.Call, values: Mapping[relax.Var, Array]) -> Array:
    name = dataflow.operator(call)
    x = [
        values[argument] if isinstance(argument, relax.Var) else np.asarray(_scalar(argument))
        for argument in call.args
    ]
    if name in UNARY:
        return UNARY[name](x[0])
    if name in _BINARY:
        return _BINARY[name](x[0], x[1])
    if name in _TERNARY:
        return _TERNARY[name](x[0], x[1], x[2])
    if name == "nn.leakyrelu":
        return np.where(x[0] < 0, x[0] * float(call.attrs.alpha), x[0])
    low, high = (0.0, np.inf) if name == "nn.relu" else (float(x[1]), float(x[2]))
    clipped: Array = np.clip(x[0], low, high)
    return clipped


def _scalar(value: relax.Expr) -> float:
    array = dataflow.constant(value)
    return float(value.value) if array is None else float(array.reshape(()))
