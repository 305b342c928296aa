"""A network in NumPy: float, quantized by any plan and parameters, or anything in between.

What a QDQ module computes, without building it: each integer layer reads dequantized integers and
multiplies dequantized weights, everything else reads floats. One image or many at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
from tvm import IRModule, relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.graph.groups import find_groups
from relay_int8.operators.images import batched, rows
from relay_int8.operators.recurrence import call_in_integers
from relay_int8.operators.registry import operator_of, refusal
from relay_int8.quantization.refine.programs import program
from relay_int8.quantization.refine.simulation import (
    Array,
    Arrays,
    Simulation,
    of_integers,
    params_of,
    quantized,
    rounded,
    scale_of,
)

STACK_BYTES = 2**22  # of one tensor of the images that are computed at a time
MOST_STACKED = 8


class NumpyNetwork:
    """The normalized float network ``mod``, of batch 1, as NumPy computes it.

    Parameters
    ----------
    mod
        Normalized float module of batch 1.
    separate
        Additions and functions that are layers of their own (``find_groups``).
    outputs
        Names of the tensors that it gives; None: its results.
    """

    def __init__(
        self,
        mod: IRModule,
        separate: Iterable[str] = (),
        *,
        outputs: Iterable[str] | None = None,
    ) -> None:
        func = mod["main"]
        self.mod = mod
        self.separate = frozenset(separate)
        self.groups = _with_whole_parts(find_groups(func, separate=self.separate))
        self.layers = {group.name: group for group in self.groups}
        self.inputs = [str(param.name) for param in func.params]
        results = (str(var.name) for var in dataflow.results(func))
        self.outputs = list(results if outputs is None else outputs)
        self._values = dict(dataflow.calls(func))
        self._evaluators: dict[str, Callable[[Sequence[Array]], Array]] = {}
        self._read_last = read_last(self.groups)
        tensors = (*func.params, *(group.output for group in self.groups))
        self.shapes = {str(var.name): dataflow.shape(var) for var in tensors}

    def run(
        self,
        inputs: Mapping[str, Array],
        simulation: Simulation | None = None,
        *,
        keep: Callable[[str], bool] | None = None,
        known: Mapping[str, Array] | None = None,
    ) -> Arrays:
        """Return the outputs, and the tensors that ``keep`` wants, as their producers give them.

        Parameters
        ----------
        inputs
            Input name -> images along the first axis, as :meth:`stacked` returns them.
        simulation
            None: everything in float.
        keep
            Says of a tensor's name whether to return it too.
        known
            Tensors of a float run on the same inputs: what precedes all integers is taken from it.
        """
        state = _State(self, inputs, simulation, known or {})
        kept: Arrays = {}
        for group in self.groups:
            kept_here = state.compute(group)
            if group.name in self.outputs or (keep is not None and keep(group.name)):
                kept[group.name] = kept_here
            for name in self._read_last.get(group.name, ()):
                if name not in self.outputs:
                    state.forget(name)
        for name in self.outputs:
            kept[name] = state.seen(name, integer=False)
        return kept

    @cached_property
    def stack_size(self) -> int:
        """Images that are computed at a time: tensors of more than these would leave the cache."""
        largest = max(map(math.prod, self.shapes.values()), default=1)
        return int(np.clip(STACK_BYTES // (4 * max(largest, 1)), 1, MOST_STACKED))

    def images(
        self, data: Iterable[Mapping[str, Array]], size: int | None = None
    ) -> Iterator[Arrays]:
        """Yield the images stacked, ``size`` of them at a time, ``stack_size`` if None."""
        size = size or self.stack_size
        stack: list[Mapping[str, Array]] = []
        for image in data:
            stack.append(image)
            if len(stack) == size:
                yield self.stacked(stack)
                stack = []
        if stack:
            yield self.stacked(stack)

    def stacked(self, images: Sequence[Mapping[str, Array]]) -> Arrays:
        """Return the inputs of some images as :meth:`run` takes them."""
        return {
            name: batched([image[name] for image in images], self.shapes[name])
            for name in self.inputs
        }

    def rows(self, name: str, x: Array) -> Array:
        """Return a tensor of many images with the rank that it has in the network, but vectors.

        (n * shape[0], ...), where ``x`` is as :meth:`run` returns it; a vector is (n, k).
        """
        return rows(x, self.shapes[name])

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return the float result of a group, images along the first axis."""
        if group.name not in self._evaluators:
            self._evaluators[group.name] = self._evaluator(group)
        with np.errstate(all="ignore"):  # infinities are values, as in kernels
            return self._evaluators[group.name](xs)

    def evaluate_state(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return the result of a recurrent layer whose state multiplies integers."""
        key = f"{group.name}:integers"
        if key not in self._evaluators:
            values = {**self._values, group.members[0]: call_in_integers(group)}
            self._evaluators[key] = _each(group, program(group, values))
        return self._evaluators[key](xs)

    def _evaluator(self, group: Group) -> Callable[[Sequence[Array]], Array]:
        record = operator_of(group)
        if not record.in_numpy or (refusal(group) and not record.takes_constants):
            return _each(group, program(group, self._values))
        evaluate = partial(record.evaluate, group)
        return evaluate if record.is_batched(group) else _each(group, evaluate)


class _State:
    """One run: values of tensors as produced, and as integer layers see them."""

    def __init__(
        self,
        network: NumpyNetwork,
        inputs: Mapping[str, Array],
        simulation: Simulation | None,
        known: Mapping[str, Array],
    ) -> None:
        self._network = network
        self._values: Arrays = {name: inputs[name] for name in network.inputs}
        self._quantized: Arrays = {}
        self._known = known
        self._clean = set(network.inputs) if known else set()
        plan = simulation.plan if simulation else None
        self._simulation = simulation
        self._integer = plan.integer_layers if plan else frozenset()
        self._params = params_of(simulation) if simulation else {}

    def compute(self, group: Group) -> Array:
        """Return a group's tensor, and keep it; the known one where only floats precede."""
        integer = group.name in self._integer
        names = [str(var.name) for var in group.inputs]
        floats = [str(var.name) for var in group.floats]
        clean = not integer and all(name in self._clean for name in (*names, *floats))
        if clean and group.name in self._known:
            y = self._known[group.name]
        else:
            y = self._result(group, names, floats, integer)
        if clean:
            self._clean.add(group.name)
        self._values[group.name] = y
        return y

    def seen(self, name: str, *, integer: bool) -> Array:
        """Return what an integer or a float reader sees of a tensor."""
        if name not in self._params or not (integer or name in self._integer):
            return self._values[name]
        return self.integers(name) * self._params[name].scale

    def integers(self, name: str) -> Array:
        """Return the integers of a tensor less their zero point, float32."""
        if name not in self._quantized:
            self._quantized[name] = quantized(self._values[name], self._params[name])
        return self._quantized[name]

    def forget(self, name: str) -> None:
        """Drop a tensor that nothing reads any more."""
        self._values.pop(name, None)
        self._quantized.pop(name, None)

    def _result(
        self, group: Group, names: Sequence[str], floats: Sequence[str], integer: bool
    ) -> Array:
        if group.weight is None or not integer:
            xs = [self.seen(name, integer=integer) for name in names]
            xs += [self.seen(name, integer=False) for name in floats]
            if integer and group.state_weight is not None:
                return self._network.evaluate_state(group, xs)
            return self._network.evaluate(group, xs)
        assert self._simulation is not None
        x = self._params.get(names[0])
        w = self._simulation.weights.get(group.name) or rounded(group, scale_of(x))
        b = self._simulation.biases.get(group.name, group.bias)
        xs = [self._values[names[0]] if x is None else self.integers(names[0])]
        xs += [self.seen(name, integer=True) for name in names[1:]]
        return of_integers(group, xs, x, w, b)


def _with_whole_parts(groups: Iterable[Group]) -> list[Group]:
    """Return the groups with each part of a tuple computed from what the tuple is made of."""
    tuples = {
        group.output: group for group in groups if isinstance(group.output.ty, relax.TupleType)
    }
    joined = []
    for group in groups:
        if group.output in tuples:
            continue
        whole = [tuples[var] for var in group.inputs if var in tuples]
        if whole:
            members = [*whole[0].members, *group.members]
            group = replace(group, inputs=whole[0].inputs, members=members)
        joined.append(group)
    return joined


def _each(
    group: Group, evaluate: Callable[[Sequence[Array]], Array]
) -> Callable[[Sequence[Array]], Array]:
    """Return what computes a group one image at a time, each in the shapes of the network."""
    shapes = [dataflow.shape(var) for var in (*group.inputs, *group.floats)]
    result = dataflow.shape(group.output)

    def _run(xs: Sequence[Array]) -> Array:
        given = [
            [x[min(i, len(x) - 1)].reshape(shape) for x, shape in zip(xs, shapes, strict=True)]
            for i in range(max(map(len, xs), default=1))  # what is made of constants is there once
        ]
        return batched([evaluate(image) for image in given], result)

    return _run


def read_last(groups: Sequence[Group]) -> dict[str, list[str]]:
    """Return, by the name of a group, the tensors that nothing reads after it."""
    last: dict[str, str] = {}
    for group in groups:
        names = (str(var.name) for var in (*group.inputs, *group.floats))
        last |= dict.fromkeys((group.name, *names), group.name)
    last_uses: dict[str, list[str]] = {}
    for name, reader in last.items():
        last_uses.setdefault(reader, []).append(name)
    return last_uses
