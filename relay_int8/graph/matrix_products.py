"""Find products of two activations, with the reshapes and permutations that a kernel absorbs."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.matrices import (
    MOVES,
    Outer,
    Positions,
    is_countable,
    is_movable,
    outer_of,
    read_through,
    repeated,
    strides_of,
    written_through,
)
from schedules.spec import Strides

Values = Mapping[relax.Var, relax.Expr]
Readers = Mapping[relax.Var, list[relax.Var]]


@dataclass(frozen=True, kw_only=True)
class Operand:
    """A tensor that a product reads or gives, and how its matrices lie in it."""

    tensor: relax.Var
    strides: Strides


@dataclass(frozen=True, kw_only=True)
class MatrixProduct:
    """``a b'`` of two activations: rows of both are multiplied."""

    members: tuple[relax.Var, ...]
    outer: Outer
    rows: int
    columns: int
    depth: int
    a: Operand
    b: Operand
    y: Operand


@dataclass(frozen=True)
class MatrixAccess:
    """A tensor, and where matrices lie in it; None: not at even steps."""

    tensor: relax.Var
    positions: Positions | None


class Surroundings:
    """The operators around the products of a function; ``taken`` belong to a product already."""

    def __init__(self, values: Values, readers: Readers, results: Collection[relax.Var]) -> None:
        self.values, self.readers, self.results = values, readers, set(results)
        self.taken: set[relax.Var] = set()
        self._order = {var: index for index, var in enumerate(values)}

    def operator(self, var: relax.Var) -> str:
        """Return the operator that gives ``var``."""
        return dataflow.operator(self.values[var])

    def in_order(self, members: Collection[relax.Var]) -> tuple[relax.Var, ...]:
        """Return variables as they are bound."""
        return tuple(sorted(members, key=self._order.__getitem__))

    def peeled(
        self, operands: Sequence[relax.Var], core: Collection[relax.Var], *, factors: bool
    ) -> set[relax.Var]:
        """Return the moves before ``operands`` that nothing but them and ``core`` reads.

        With ``factors`` multiplications of a whole tensor by a number, too.
        """
        members: set[relax.Var] = set()
        waiting = [(-self._order.get(var, -1), index, var) for index, var in enumerate(operands)]
        heapq.heapify(waiting)
        while waiting:
            _, index, var = heapq.heappop(waiting)
            if var in members or not self._is_peeled(var, factors):
                continue
            if all(reader in members or reader in core for reader in self.readers[var]):
                members.add(var)
                source = self.values[var].args[0]
                heapq.heappush(waiting, (-self._order.get(source, -1), index, source))
        return members

    def _is_peeled(self, var: relax.Var, factors: bool) -> bool:
        if var not in self.values or var in self.results or var in self.taken:
            return False
        call = self.values[var]
        if self.operator(var) not in MOVES and not (factors and scalar_factor(call) is not None):
            return False
        source = call.args[0]
        if not isinstance(source, relax.Var):
            return False
        return all(is_movable(dataflow.shape(each)) for each in (call, source))

    def chain(self, var: relax.Var, members: Collection[relax.Var]) -> list[relax.Var]:
        """Return the variables from ``var`` back to the first one that is none of ``members``."""
        chain = [var]
        while chain[-1] in members:
            chain.append(self.values[chain[-1]].args[0])
        return chain

    def factor(self, var: relax.Var, members: Collection[relax.Var]) -> float:
        """Return by what ``members`` before ``var`` multiply it."""
        *inside, _ = self.chain(var, members)
        scalars = (scalar_factor(self.values[member]) for member in inside)
        return math.prod(scalar for scalar in scalars if scalar is not None)

    def read(self, var: relax.Var, members: Collection[relax.Var], turned: bool) -> MatrixAccess:
        """Return the tensor behind the moves ``members``, and where matrices of ``var`` lie in it.

        ``turned``: their rows are the last axis of ``var``.
        """
        *inside, source = self.chain(var, members)
        if not is_countable(dataflow.shape(source)):
            return MatrixAccess(source, None)
        layout_calls = [self.values[member] for member in reversed(inside)]
        return MatrixAccess(source, read_through(source, layout_calls, turned))

    def written(self, product: relax.Var) -> MatrixAccess:
        """Return the tensor that a product is moved to, and where its matrices lie in it."""
        shape = dataflow.shape(product)
        if not is_countable(shape):
            return MatrixAccess(product, None)
        moved = [product]
        while (reader := self._mover(moved[-1])) is not None:
            moved.append(reader)
        for last in range(len(moved) - 1, 0, -1):
            if not is_countable(dataflow.shape(moved[last])):
                continue
            calls = [self.values[var] for var in moved[1 : last + 1]]
            positions = written_through(shape, calls)
            if positions is not None:
                return MatrixAccess(moved[last], positions)
        return MatrixAccess(product, written_through(shape, []))

    def _mover(self, var: relax.Var) -> relax.Var | None:
        """Return the only reader of a tensor, where it moves all of it."""
        if len(self.readers[var]) != 1 or var in self.results:
            return None
        reader = self.readers[var][0]
        movable = self.operator(reader) in ("reshape", "permute_dims") and reader not in self.taken
        return reader if movable and is_movable(dataflow.shape(reader)) else None

    def until(self, product: relax.Var, last: relax.Var) -> list[relax.Var]:
        """Return the variables from ``product`` to ``last``: each alone reads the one before."""
        chain = [product]
        while not chain[-1].same_as(last):
            chain.append(self.readers[chain[-1]][0])
        return chain


def find_products(
    around: Surroundings, is_weight: Callable[[relax.Expr], bool]
) -> list[MatrixProduct]:
    """Return the products of two activations that are not taken (in topological order)."""
    products = []
    for var, value in around.values.items():
        if dataflow.operator(value) != "matmul" or var in around.taken:
            continue
        if any(
            is_weight(argument) or dataflow.constant(argument) is not None
            for argument in value.args
        ):
            continue
        product = _product(around, var)
        if product is not None:
            products.append(product)
            around.taken.update(product.members)
    return products


def _product(around: Surroundings, var: relax.Var) -> MatrixProduct | None:
    """Return the product that ``var`` is, or None where an operand is a vector."""
    call = around.values[var]
    reads = tuple(call.args[:2])
    shapes = [dataflow.shape(value) for value in (*reads, call)]
    if any(len(shape) < 2 or not is_countable(shape) for shape in shapes):
        return None
    outer_axes = shapes[2][:-2]
    for operands in (reads, ()):
        layout_vars = around.peeled(operands, [var], factors=False)
        accesses = [
            around.read(reads[0], layout_vars, False),
            around.read(reads[1], layout_vars, True),
        ]
        written = around.written(var)
        positions = [
            None if access.positions is None else repeated(access.positions, shape[:-2], outer_axes)
            for access, shape in zip(accesses, shapes, strict=False)
        ]
        known = [each for each in (*positions, written.positions) if each is not None]
        if len(known) < 3:
            continue
        memory = [dataflow.shape(access.tensor) for access in (*accesses, written)]
        outer = outer_of([shapes[2]], memory, known)
        if outer is None:
            continue
        a, b, y = (
            Operand(tensor=access.tensor, strides=strides_of(outer, each))
            for access, each in zip((*accesses, written), known, strict=True)
        )
        members = {*layout_vars, *around.until(var, written.tensor)}
        return MatrixProduct(
            members=around.in_order(members),
            outer=outer,
            rows=int(shapes[2][-2]),
            columns=int(shapes[2][-1]),
            depth=int(shapes[0][-1]),
            a=a,
            b=b,
            y=y,
        )
    return None


def scalar_factor(call: relax.Call) -> float | None:
    """Return by what positive number a call multiplies all of its first operand, or None."""
    operator = dataflow.operator(call)
    if operator not in ("multiply", "divide") or not isinstance(call.args[0], relax.Var):
        return None
    scalar = dataflow.constant(call.args[1])
    if scalar is None or scalar.size != 1 or scalar.ndim > len(dataflow.shape(call.args[0])):
        return None
    value = float(scalar.reshape(()))
    if not math.isfinite(value) or value <= 0:
        return None
    return value if operator == "multiply" else 1 / value
