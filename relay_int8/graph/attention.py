"""Attention, and products of two activations, with the moves around them.

    softmax(factor * q k' + mask) v

as exporters write it: factors on either operand, on both or on the scores; masks that are added,
computed or constant, or chosen by a constant condition; a guard against rows that are masked out
whole (``where(isnan(p), 0, p)``); heads split off and joined by reshapes and permutations; queries,
keys and values as parts of one tensor.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.matrices import (
    MOVES,
    Outer,
    Positions,
    broadcast_to,
    chain,
    counted,
    is_countable,
    keeps_matrices,
    outer_of,
    read_through,
    strides_of,
    written_through,
)
from schedules.spec import Strides

Array = np.ndarray[Any, np.dtype[Any]]
LEAST_MASK = -1e4  # what a condition puts in place of a score counts as masked out below


@dataclass(frozen=True, kw_only=True)
class Operand:
    """A tensor that a product reads or gives, and how its matrices lie in it."""

    tensor: relax.Var
    strides: Strides


@dataclass(frozen=True, kw_only=True)
class Mask:
    """What is added to scores: a tensor, or constant values."""

    strides: Strides
    tensor: relax.Var | None = None
    values: Array | None = None


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


@dataclass(frozen=True, kw_only=True)
class Attention:
    """``softmax(factor * q k' + mask) v``; ``gain`` multiplies the result."""

    members: tuple[relax.Var, ...]
    root: relax.Var
    outer: Outer
    queries: int
    keys: int
    depth: int
    width: int
    q: Operand
    k: Operand
    v: Operand
    y: Operand
    mask: Mask | None
    factor: float
    gain: float


@dataclass
class _Scores:
    """What lies between the product of queries and keys, and the softmax."""

    product: relax.Var
    members: list[relax.Var] = field(default_factory=list)
    factor: float = 1.0
    constants: list[Array] = field(default_factory=list)
    tensor: relax.Var | None = None


def find_attention(
    values: Mapping[relax.Var, relax.Expr],
    readers: Mapping[relax.Var, list[relax.Var]],
    results: Collection[relax.Var],
) -> list[Attention]:
    """Return the attentions among ``values`` (in topological order), none overlapping."""
    finder = _Finder(values, readers, results)
    found = []
    for var, value in values.items():
        if dataflow.operator(value) == "nn.softmax" and _is_last_axis(value):
            attention = finder.attention(var)
            if attention is not None:
                found.append(attention)
                finder.taken.update(attention.members)
    return found


def find_products(
    values: Mapping[relax.Var, relax.Expr],
    readers: Mapping[relax.Var, list[relax.Var]],
    results: Collection[relax.Var],
    taken: Collection[relax.Var],
    is_weight: Callable[[relax.Expr], bool],
) -> list[MatrixProduct]:
    """Return the other products of two activations, with the moves that only they need."""
    finder = _Finder(values, readers, results)
    finder.taken.update(taken)
    found = []
    for var, value in values.items():
        if dataflow.operator(value) == "matmul" and var not in finder.taken:
            if any(is_weight(argument) for argument in value.args):
                continue
            product = finder.product(var)
            if product is not None:
                found.append(product)
                finder.taken.update(product.members)
    return found


class _Finder:
    def __init__(
        self,
        values: Mapping[relax.Var, relax.Expr],
        readers: Mapping[relax.Var, list[relax.Var]],
        results: Collection[relax.Var],
    ) -> None:
        self._values, self._readers, self._results = values, readers, set(results)
        self._order = {var: place for place, var in enumerate(values)}
        self.taken: set[relax.Var] = set()

    def attention(self, softmax: relax.Var) -> Attention | None:
        """Return the attention around a softmax, or None."""
        behind = self._weighted(softmax)
        scores = self._scores(self._values[softmax].args[0])
        if behind is None or scores is None:
            return None
        *guards, product = behind
        core = [*scores.members, softmax, *guards, product]
        if not self._is_closed(core, product):
            return None
        q_k, p_v = self._values[scores.product], self._values[product]
        reads = (q_k.args[0], q_k.args[1], p_v.args[1])
        shapes = [dataflow.shape(value) for value in (*reads, q_k, p_v, softmax)]
        if not all(isinstance(var, relax.Var) for var in reads) or not _same_outer(shapes):
            return None
        for peeled in (reads, ()):
            moves = self._peeled(peeled, core)
            written = self._written(product)
            found = self._read(reads, (False, True, False), moves)
            mask = self._mask(scores)
            places = [positions for _, positions in (*found, written)]
            if any(place is None for place in places) or (mask is not None and mask[0] is None):
                continue
            known = [place for place in (*places, *(mask[:1] if mask else ())) if place]
            outer = outer_of([dataflow.shape(q_k), dataflow.shape(p_v)], known)
            if outer is None:
                continue
            q, k, v, y = (
                Operand(tensor=tensor, strides=strides_of(outer, place))
                for tensor, place in (*found, written)
                if place is not None
            )
            chains = [chain(var, self._values, moves) for var in reads]
            factors = [self._factor(each[:-1]) for each in chains]
            last = written[0]
            members = {*moves, *core, *self._until(product, last)}
            return Attention(
                members=tuple(sorted(members, key=self._order.__getitem__)),
                root=product,
                outer=outer,
                queries=int(shapes[0][-2]),
                keys=int(shapes[1][-1]),
                depth=int(shapes[0][-1]),
                width=int(shapes[2][-1]),
                q=q,
                k=k,
                v=v,
                y=y,
                mask=_joined(mask, outer),
                factor=scores.factor * factors[0] * factors[1],
                gain=factors[2],
            )
        return None

    def product(self, var: relax.Var) -> MatrixProduct | None:
        """Return the product that ``var`` is, or None where an operand is constant or a vector."""
        call = self._values[var]
        reads = tuple(call.args[:2])
        shapes = [dataflow.shape(value) for value in (*reads, call)]
        if not all(isinstance(arg, relax.Var) for arg in reads):
            return None
        if any(len(shape) < 2 or not is_countable(shape) for shape in shapes):
            return None
        for peeled in (reads, ()):
            moves = self._peeled(peeled, [var], factors=False)
            found = self._read(reads, (False, True), moves, dataflow.shape(var)[:-2])
            written = self._written(var)
            places = [place for _, place in (*found, written) if place is not None]
            outer = outer_of([shapes[2]], places) if len(places) == 3 else None
            if outer is None:
                continue
            a, b, y = (
                Operand(tensor=tensor, strides=strides_of(outer, place))
                for (tensor, _), place in zip((*found, written), places, strict=True)
            )
            members = {*moves, var, *self._until(var, written[0])}
            return MatrixProduct(
                members=tuple(sorted(members, key=self._order.__getitem__)),
                outer=outer,
                rows=int(shapes[2][-2]),
                columns=int(shapes[2][-1]),
                depth=int(shapes[0][-1]),
                a=a,
                b=b,
                y=y,
            )
        return None

    def _weighted(self, softmax: relax.Var) -> list[relax.Var] | None:
        """Return the variables from a softmax to the product that it weighs, or None."""
        found, var = [], softmax
        readers = self._readers[var]
        guard = [reader for reader in readers if self._operator(reader) == "where"]
        if len(readers) == 2 and len(guard) == 1:
            (is_nan,) = (reader for reader in readers if reader not in guard)
            args = self._values[guard[0]].args
            zero = dataflow.constant(args[1])
            nothing = zero is not None and zero.size == 1 and not zero.any()
            if self._operator(is_nan) != "isnan" or not nothing or not args[0].same_as(is_nan):
                return None
            found, var = [is_nan, guard[0]], guard[0]
        while len(self._readers[var]) == 1:
            var = self._readers[var][0]
            call, before = self._values[var], (found or [softmax])[-1]
            found.append(var)
            if self._operator(var) == "matmul":
                return found if call.args[0].same_as(before) else None
            if not keeps_matrices(call):
                return None
        return None

    def _scores(self, var: relax.Expr) -> _Scores | None:
        """Return what leads from a product to the operand ``var`` of a softmax, or None."""
        found = _Scores(product=var)
        while isinstance(var, relax.Var) and var in self._values:
            call, operator = self._values[var], self._operator(var)
            found.members.append(var)
            if operator == "matmul":
                found.product = var
                return found
            scalar = _scalar_factor(call)
            if keeps_matrices(call):
                var = call.args[0]
            elif scalar is not None:
                found.factor *= scalar
                var = call.args[0] if isinstance(call.args[0], relax.Var) else call.args[1]
            elif operator == "add":
                var = self._masked(found, call)
            elif operator == "where":
                var = _chosen(found, call)
            else:
                return None
        return None

    def _masked(self, found: _Scores, call: relax.Call) -> relax.Expr | None:
        """Note what an addition adds to scores; return the scores."""
        shape = dataflow.shape(call)
        for score, other in (call.args, reversed(call.args)):
            array = dataflow.constant(other)
            if array is not None and array.dtype == np.float32:
                found.constants.append(_spread(array, shape) * np.float32(found.factor))
                return score
            if not isinstance(score, relax.Var) or dataflow.shape(score) != shape:
                continue
            alone = found.tensor is None and found.factor == 1 and self._leads(score)
            if alone and isinstance(other, relax.Var) and not self._leads(other):
                found.tensor = other
                return score
        return None

    def _leads(self, var: relax.Expr) -> bool:
        """Say whether a product of two activations is a few steps before ``var``."""
        for _ in range(6):
            if var not in self._values:
                return False
            call, operator = self._values[var], self._operator(var)
            if operator == "matmul":
                return all(isinstance(arg, relax.Var) for arg in call.args)
            if not keeps_matrices(call) and operator not in ("add", "multiply", "divide"):
                return False
            var = next((arg for arg in call.args if isinstance(arg, relax.Var)), None)
        return False

    def _mask(self, scores: _Scores) -> tuple[Positions | None, Any] | None:
        """Return where masks lie and what they are; None without one; (None, ...) if unknown."""
        if scores.tensor is not None and scores.constants:
            return None, None
        if scores.tensor is not None:
            shape = dataflow.shape(scores.tensor)
            added = next(
                dataflow.shape(var)
                for var in scores.members
                if scores.tensor in dataflow.arguments(self._values[var])
            )
            known = is_countable(shape) and dataflow.dtype(scores.tensor) == "float32"
            return (broadcast_to(scores.tensor, added) if known else None), scores.tensor
        if not scores.constants:
            return None
        total = np.sum(scores.constants, axis=0, dtype=np.float64).astype(np.float32)
        matrices = total.reshape(-1, *total.shape[-2:])
        rows, columns = matrices.shape[1:]
        return Positions(
            first=np.arange(len(matrices)) * rows * columns, row=columns, column=1
        ), matrices

    def _peeled(
        self, operands: Sequence[relax.Var], core: Sequence[relax.Var], factors: bool = True
    ) -> set[relax.Var]:
        """Return the moves and factors before ``operands`` that nothing outside of here reads."""
        members: set[relax.Var] = set()
        waiting = [(-self._order.get(var, -1), index, var) for index, var in enumerate(operands)]
        heapq.heapify(waiting)
        while waiting:
            _, index, var = heapq.heappop(waiting)
            if var in members or var not in self._values or var in self._results | self.taken:
                continue
            call = self._values[var]
            is_move = self._operator(var) in MOVES
            if not is_move and not (factors and _scalar_factor(call) is not None):
                continue
            if not isinstance(call.args[0], relax.Var) or not is_countable(dataflow.shape(call)):
                continue
            if not is_countable(dataflow.shape(call.args[0])):
                continue
            if all(reader in members or reader in core for reader in self._readers[var]):
                members.add(var)
                heapq.heappush(waiting, (-self._order.get(call.args[0], -1), index, call.args[0]))
        return members

    def _read(
        self,
        operands: Sequence[relax.Var],
        turned: Sequence[bool],
        moves: set[relax.Var],
        outer: tuple[Any, ...] | None = None,
    ) -> list[tuple[relax.Var, Positions | None]]:
        """Return the tensor of each operand, and where its matrices lie in it."""
        found = []
        for var, is_turned in zip(operands, turned, strict=True):
            *inside, source = chain(var, self._values, moves)
            calls = [self._values[member] for member in reversed(inside)]
            place = None
            if is_countable(dataflow.shape(source)):
                place = read_through(source, calls, is_turned)
            if place is not None and outer is not None:
                place = _repeated(place, dataflow.shape(var)[:-2], outer)
            found.append((source, place))
        return found

    def _written(self, product: relax.Var) -> tuple[relax.Var, Positions | None]:
        """Return the tensor that a product is moved to, and where its matrices lie in it."""
        shape = dataflow.shape(product)
        if not is_countable(shape):
            return product, None
        steps, ends = [], [product]
        while len(self._readers[ends[-1]]) == 1 and ends[-1] not in self._results:
            reader = self._readers[ends[-1]][0]
            movable = self._operator(reader) in ("reshape", "permute_dims")
            if not movable or not is_countable(dataflow.shape(reader)) or reader in self.taken:
                break
            steps.append(self._values[reader])
            ends.append(reader)
        for count in range(len(steps), 0, -1):
            place = written_through(shape, steps[:count])
            if place is not None:
                return ends[count], place
        return product, written_through(shape, [])

    def _until(self, product: relax.Var, last: relax.Var) -> list[relax.Var]:
        """Return the variables behind ``product`` up to ``last``."""
        found = [product]
        while not found[-1].same_as(last):
            found.append(self._readers[found[-1]][0])
        return found

    def _is_closed(self, core: Sequence[relax.Var], last: relax.Var) -> bool:
        """Say whether nothing outside reads what is between the ends."""
        inside = set(core)
        return not inside & self.taken and all(
            var.same_as(last)
            or (var not in self._results and all(r in inside for r in self._readers[var]))
            for var in core
        )

    def _factor(self, members: Sequence[relax.Var]) -> float:
        scalars = (_scalar_factor(self._values[var]) for var in members)
        return math.prod(scalar for scalar in scalars if scalar is not None)

    def _operator(self, var: relax.Var) -> str:
        return dataflow.operator(self._values[var])


def _is_last_axis(call: relax.Call) -> bool:
    axis, rank = int(call.attrs.axis), len(dataflow.shape(call))
    return axis in (-1, rank - 1)


def _same_outer(shapes: Sequence[Sequence[Any]]) -> bool:
    """Say whether products have matrices, as many of each, at most the batch being open."""
    if any(len(shape) < 2 or not is_countable(shape) for shape in shapes):
        return False
    return len({math.prod(counted(shape)[:-2]) for shape in shapes}) == 1


def _scalar_factor(call: relax.Call) -> float | None:
    """Return by what a call multiplies all of a tensor, or None."""
    operator = dataflow.operator(call)
    if operator not in ("multiply", "divide"):
        return None
    arrays = [dataflow.constant(arg) for arg in call.args]
    if operator == "multiply" and arrays[1] is None:
        arrays.reverse()
    scalar = arrays[1]
    if arrays[0] is not None or scalar is None or scalar.size != 1:
        return None
    if len(dataflow.shape(call)) < scalar.ndim or not np.isfinite(scalar).all():
        return None
    value = float(scalar.reshape(()))
    if value <= 0:
        return None
    return value if operator == "multiply" else 1 / value


def _chosen(found: _Scores, call: relax.Call) -> relax.Expr | None:
    """Note the constant condition that masks scores; return the scores."""
    condition, *choices = call.args
    keeps = dataflow.constant(condition)
    if keeps is None:
        return None
    for is_kept, score, other in ((keeps, *choices), (~keeps, *reversed(choices))):
        array = dataflow.constant(other)
        if array is not None and array.size == 1 and float(array.reshape(())) <= LEAST_MASK:
            mask = np.where(is_kept, np.float32(0), np.float32(array.reshape(())))
            found.constants.append(_spread(mask, dataflow.shape(call)))
            return score
    return None


def _spread(array: Array, shape: tuple[Any, ...]) -> Array:
    """Return constants for each matrix: (outer, rows, columns)."""
    dims = counted(shape)
    return np.broadcast_to(array, dims).reshape(-1, *dims[-2:])


def _repeated(place: Positions, own: Sequence[Any], outer: Sequence[Any]) -> Positions:
    """Return positions of matrices that are broadcast over the leading axes ``outer``."""
    dims = counted(outer)
    grid = place.first.reshape((1,) * (len(dims) - len(own)) + counted(own))
    return Positions(
        first=np.broadcast_to(grid, dims).reshape(-1).copy(), row=place.row, column=place.column
    )


def _joined(mask: tuple[Positions | None, Any] | None, outer: Outer) -> Mask | None:
    """Return a mask with its strides; constants that repeat are kept once."""
    if mask is None or mask[0] is None:
        return None
    place, what = mask
    if isinstance(what, relax.Var):
        return Mask(tensor=what, strides=strides_of(outer, place))
    batch = outer.batch if isinstance(outer.batch, int) else len(what) // outer.heads
    values = what.reshape(batch, outer.heads, *what.shape[1:])
    for axis in (0, 1, 2):
        first = np.take(values, [0], axis)
        if np.array_equal(values, np.broadcast_to(first, values.shape)):
            values = first
    steps = [
        step // values.itemsize if extent > 1 else 0
        for extent, step in zip(values.shape, np.ascontiguousarray(values).strides, strict=True)
    ]
    return Mask(values=np.ascontiguousarray(values), strides=(0, *steps))  # type: ignore[arg-type]
