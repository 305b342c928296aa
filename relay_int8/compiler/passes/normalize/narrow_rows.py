"""Compute only the rows that are read: a slice moves in front of what treats each row by itself.

    Before:  t = add(x, y);  n = layer_norm(t, axes=[2]);  c = strided_slice(n, axis 1, 0 to 1)
    After:   t = add(x[:, :1], y[:, :1]);  c = layer_norm(t, axes=[2])

Transformers that classify read one token of their last block: its feed-forward layers and the last
norm are then of that token alone. So are their ranges: before, a token of small numbers had the
steps of all others, and could be rounded away.

Place:  last, in canonical form; a chain moves if a product or a norm is in it.
Exact:  bit-identical but for products of floats, whose kernels sum in an order that depends on the
        number of rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import tvm
from tvm import IRModule, relax

from relay_int8.compiler.passes.normalize.steps_on_axes import ELEMENTWISE
from relay_int8.graph import dataflow
from relay_int8.graph.dataflow import constant, operator, shape
from relay_int8.graph.norm_readers import ROW_NORMS


class Rows(NamedTuple):
    """A part of a tensor: ``size`` elements along one axis, from ``begin`` on."""

    axis: int
    begin: int
    size: int


@tvm.transform.module_pass(opt_level=0, name="NarrowRows")
class NarrowRows:
    """Compute only the rows that are read."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with slices in front of rows' arithmetic; ``mod`` itself is left alone."""
        func = mod["main"]
        slices = {var: rows for var, value in dataflow.calls(func) if (rows := _read_rows(value))}
        if not slices:
            return mod
        values = dict(dataflow.calls(func))
        costly = _costly(func, _wanted(func, slices))
        slices = {var: rows for var, rows in slices.items() if values[var].args[0] in costly}
        wanted = _wanted(func, slices)
        return _Writer(mod, slices, wanted).run() if wanted else mod


def _read_rows(value: relax.Expr) -> Rows | None:
    """Return what a slice reads along the one axis that it cuts, which is not the last."""
    if operator(value) != "strided_slice":
        return None
    before, after = shape(value.args[0]), shape(value)
    if not all(isinstance(extent, int) for extent in (*before[1:], *after[1:])):
        return None
    begins, steps = dataflow.slice_steps(value)
    cut = [axis for axis, size in enumerate(after) if axis and size != before[axis]]
    if len(cut) != 1 or cut[0] == len(before) - 1 or set(steps) != {1}:
        return None
    return Rows(cut[0], begins[cut[0]], after[cut[0]])


def _wanted(func: relax.Function, slices: Mapping[relax.Var, Rows]) -> dict[relax.Expr, Rows]:
    """Return the tensors of which all readers, and the network, need the same rows alone."""
    wishes: dict[relax.Expr, set[Rows | None]] = defaultdict(set)
    results = set(dataflow.results(func))
    for result in results:
        wishes[result].add(None)
    for var, value in reversed(dataflow.calls(func)):
        if var in slices and var not in results:
            wishes[value.args[0]].add(slices[var])
            continue
        rows = _agreed(wishes[var])
        operands = _of_operands(value, rows) if rows else None
        for argument in dataflow.arguments(value):
            wishes[argument].add(operands.get(argument) if operands else None)
    return {var: rows for var, wish in wishes.items() if (rows := _agreed(wish))}


def _agreed(wishes: set[Rows | None]) -> Rows | None:
    return next(iter(wishes)) if len(wishes) == 1 else None


def _of_operands(value: relax.Expr, rows: Rows) -> dict[relax.Expr, Rows] | None:
    """Return the rows of its operands that rows of a value need; None if it mixes rows.

    An operand that is absent is needed as a whole: one number for all rows, or weights.
    """
    name, rank = operator(value), len(shape(value))
    if name == "matmul":
        x, w = value.args
        return {x: rows} if constant(w) is not None and len(shape(w)) == 2 else None
    if name in ROW_NORMS:
        normalized = {int(axis) % rank for axis in value.attrs.axes}
        return {value.args[0]: rows} if rows.axis not in normalized else None
    if name not in ELEMENTWISE or (name == "nn.prelu" and rows.axis == value.attrs.axis % rank):
        return None  # slopes of one axis lie along no other
    operands = {}
    for argument in _tensors(value):
        axis = rows.axis - rank + len(shape(argument))
        if axis >= 0 and shape(argument)[axis] != 1:
            operands[argument] = rows._replace(axis=axis)
    return operands


def _tensors(value: relax.Call) -> list[relax.Expr]:
    return [argument for argument in value.args if isinstance(argument.ty, relax.TensorType)]


def _costly(func: relax.Function, wanted: Mapping[relax.Expr, Rows]) -> set[relax.Expr]:
    """Return the wanted tensors that a product or a norm is behind, by way of wanted ones."""
    costly: set[relax.Expr] = set()
    for var, value in dataflow.calls(func):
        operands = _of_operands(value, wanted[var]) if var in wanted else None
        if operands is not None and (
            operator(value) in ("matmul", *ROW_NORMS) or not costly.isdisjoint(operands)
        ):
            costly.add(var)
    return costly


class _Writer:
    """Rewrites one function."""

    def __init__(
        self,
        mod: IRModule,
        slices: Mapping[relax.Var, Rows],
        wanted: Mapping[relax.Expr, Rows],
    ) -> None:
        self._func = mod["main"]
        self._slices = slices
        self._wanted = wanted
        self._writer = dataflow.FunctionWriter(mod, func=self._func)
        self._done: dict[relax.Var, relax.Expr] = {}
        self._narrow: dict[tuple[relax.Expr, Rows], relax.Expr] = {}

    def run(self) -> IRModule:
        """Write the function anew."""
        for var, value in dataflow.calls(self._func):
            if var in self._slices and value.args[0] in self._wanted:
                self._done[var] = self._rows_of(value.args[0], self._slices[var])
                continue
            operands = _of_operands(value, self._wanted[var]) if var in self._wanted else None
            if operands is None:
                substituted = dataflow.substitute(value, self._done)
                self._done[var] = self._writer.emit(var.name, substituted)
                continue
            read = [
                self._rows_of(argument, operands[argument])
                if argument in operands
                else dataflow.substitute(argument, self._done)
                for argument in value.args
            ]
            narrowed = dataflow.with_arguments(value, read)
            self._narrow[var, self._wanted[var]] = self._writer.emit(var.name, narrowed)
        outputs = [self._done.get(var, var) for var in dataflow.results(self._func)]
        return self._writer.finish(self._func.params, outputs, dataflow.attributes(self._func))

    def _rows_of(self, tensor: relax.Expr, rows: Rows) -> relax.Expr:
        """Return rows of a tensor: it has no others, or they are sliced here."""
        end = rows.begin + rows.size
        if (array := constant(tensor)) is not None:
            return relax.const(array.take(range(rows.begin, end), rows.axis))
        if (tensor, rows) not in self._narrow:
            whole = dataflow.substitute(tensor, self._done)
            cut = relax.op.strided_slice(whole, [rows.axis], [rows.begin], [end], [1])
            self._narrow[tensor, rows] = self._writer.derive(f"{whole.name}/rows", cut)
        return self._narrow[tensor, rows]
