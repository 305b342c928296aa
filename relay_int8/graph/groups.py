"""Which operators become one kernel: a root operator with what its epilogue absorbs.

Serves float and QDQ modules alike: annotate, realize and the float lowering see the same groups.

    roots, and operators of several calls: see ``graph.group_roots``
    conv2d | matmul  -> + constant bias -> + residual -> relu | clip | leaky_relu | prelu
    conv2d | matmul  -> + constant bias -> + residual -> a function that ``graph.gates`` knows
    conv2d  -> + constant bias -> relu | leaky_relu | prelu | such a function -> + residual
    add | subtract | multiply | divide | maximum | minimum | avg_pool2d | affine -> relu | clip

An operator is absorbed when it is the only reader of what comes before it. Of two convolutions
that are added, the last in topological order takes the addition; the other one's result is its
residual.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.gates import activation_of
from relay_int8.graph.group import AFFINE, CONV2D, DENSE, Clip, Group, Leaky, Smooth
from relay_int8.graph.group_roots import (
    KINDS,
    PAIRS,
    FunctionIndex,
    clip_or_slope,
    composed_groups,
    root_group,
)
from relay_int8.graph.readings import kept
from relay_int8.numerics.unary import UNARY

BOUNDED = (CONV2D, DENSE, "avg_pool2d", AFFINE, *PAIRS)
"""Kinds whose kernels clamp their result, so that an activation behind them is theirs."""


def find_groups(
    func: relax.Function,
    separate: Collection[str] = (),
    *,
    attention: bool = True,
    functions: bool = True,
) -> list[Group]:
    """Return the groups of ``func``, ordered by where their results are bound.

    Parameters
    ----------
    func
        A function in canonical form, with or without Q/DQ pairs.
    separate
        Names of tensors whose operator is not to be absorbed as a residual addition, or whose
        function or slope is not to be absorbed by the layer before it.
    attention
        Whether attention is one group; otherwise its two products and its softmax are.
    functions
        Whether trees of operators are functions, and layers absorb them. Otherwise each operator is
        by itself, as kernels of floats have it.
    """
    return list(_found(func, frozenset(separate), attention, functions))


@kept
def _found(
    func: relax.Function, separate: Collection[str], attention: bool, functions: bool
) -> list[Group]:
    reader = FunctionIndex(func)
    groups: dict[relax.Var, Group] = {}
    absorbed: set[relax.Var] = set()
    biases = _biases(reader)
    for group in composed_groups(reader, set(biases), attention=attention, functions=functions):
        groups[group.members[0]] = group
        absorbed.update(group.members[1:])
    for var, value in reader.values.items():
        if var in absorbed or var in groups:
            continue
        group = root_group(reader, var, value)
        groups[var] = group
        add = reader.sole_reader(var)
        if add in biases:
            group.bias = biases[add]
            _append(group, add, absorbed)
    absorber = _Absorber(reader, groups, absorbed, separate)
    for group in _by_output(groups, reader):
        if group.kind == CONV2D and group.output.name not in separate:
            absorber.take_residual(group)
    for group in groups.values():
        absorber.take_activation(group)
    for group in _layers_before(groups, reader) if functions else ():
        absorber.take_function(group)
    for group in _by_output(groups, reader):
        if group.kind == CONV2D and group.activated is not None and not group.residual:
            absorber.take_last_residual(group)
    heads = {var: group for var, group in groups.items() if var not in absorbed}
    return _by_output(heads, reader)


def _biases(reader: FunctionIndex) -> dict[relax.Var, np.ndarray]:
    """Return what is added to each channel of a convolution or product by constant weights."""
    biases = {}
    for var, value in reader.values.items():
        add = reader.sole_reader(var)
        kind = KINDS.get(dataflow.operator(value))
        if add is None or dataflow.operator(reader.values[add]) != "add":
            continue
        if kind not in (CONV2D, DENSE) or not reader.is_weight(value.args[1]):
            continue
        arrays = [dataflow.constant(argument) for argument in reader.values[add].args]
        bias = next((array for array in arrays if array is not None), None)
        axis = 1 if kind == CONV2D else -1
        if bias is not None and _per_channel(bias, dataflow.shape(add), axis):
            biases[add] = np.broadcast_to(bias.reshape(-1), (dataflow.shape(add)[axis],)).copy()
    return biases


@dataclass(frozen=True)
class _Absorber:
    """Lets groups take operators behind them, each if it is the only reader of what is before it.

    ``groups`` are those found, by their first operator, ``absorbed`` what others have taken;
    ``separate`` as :func:`find_groups` has it.
    """

    reader: FunctionIndex
    groups: dict[relax.Var, Group]
    absorbed: set[relax.Var]
    separate: Collection[str]

    def take_residual(self, group: Group) -> None:
        """Let a layer take the addition that is the only reader of its result."""
        add, order = self.reader.sole_reader(group.output), self.reader.order
        if add is None or add in self.absorbed or add.name in self.separate or not group.inputs:
            return
        if dataflow.operator(self.reader.values[add]) != "add":
            return
        others = [arg for arg in self.reader.values[add].args if not group.output.same_as(arg)]
        if len(others) != 1 or not isinstance(others[0], relax.Var):
            return
        (other,) = others
        if dataflow.shape(other) != dataflow.shape(group.output):
            return
        if order.get(other, -1) > order[group.output] and self._is_rival(other):
            return
        group.inputs.append(other)
        group.addition = add
        _append(group, add, self.absorbed)

    def take_last_residual(self, group: Group) -> None:
        """Let a convolution add a residual to what its activation gives.

        A kernel has one pair of bounds, for what it gives: ReLU in front of a sum is a slope of 0.
        """
        activation, add = group.activation, self.reader.sole_reader(group.output)
        if add is None or add not in self.groups or len(self.groups[add].members) > 1:
            return
        if isinstance(activation, Clip):
            if activation != Clip(0.0, np.inf):
                return
            activation = Leaky(np.zeros(1))
        self.take_residual(group)
        if group.residual:
            group.activation = activation

    def _is_rival(self, var: relax.Var) -> bool:
        """Say whether ``var`` comes from a convolution that could absorb the addition itself."""
        convolutions = (group for group in self.groups.values() if group.kind == CONV2D)
        return self.reader.sole_reader(var) is not None and any(
            rival.output.same_as(var) for rival in convolutions
        )

    def take_activation(self, group: Group) -> None:
        """Let a group take the bounds or the slope that are the only reader of its result."""
        follower = self.reader.sole_reader(group.output)
        if follower is None or follower in self.absorbed or follower.name in self.separate:
            return
        if group.kind not in BOUNDED or group.activation is not None:
            return
        if group.is_layer and group.weight is None:
            return
        activation = clip_or_slope(self.reader.values[follower])
        if isinstance(activation, Leaky):
            if not group.is_layer:
                return
            # The channels of a product are its last axis, those of PReLU axis 1.
            rank = len(dataflow.shape(follower))
            if group.kind == DENSE and rank != 2 and activation.slope.size > 1:
                return
        if activation is not None:
            group.activation, group.activated = activation, follower
            _append(group, follower, self.absorbed)

    def take_function(self, layer: Group) -> None:
        """Let a layer compute the function that is the only reader of its result.

        It multiplies the values by positive factors of channels too, where nothing else reads them.
        """
        readers = self.reader.readers[layer.output]
        follower = next((self.groups[var] for var in readers if var in self.groups), None)
        if follower is None or not set(readers) <= set(follower.members):
            return
        function = follower.function or UNARY.get(follower.kind)
        known = function and activation_of(function)
        if function is None or known is None:
            return
        behind = self.reader.sole_reader(follower.output)
        scaled = None if behind is None else _positive_factors(self.groups.get(behind))
        last = follower if scaled is None else scaled
        if {follower.name, last.name}.intersection(self.separate):
            return
        factors = None if scaled is None or scaled.affine is None else scaled.affine.scale
        layer.activation = Smooth(
            known.name, follower.kind, function, factors, known.scale, known.shift
        )
        for member in (*follower.members, *(scaled.members if scaled else ())):
            _append(layer, member, self.absorbed)
        layer.activated = layer.output


def _layers_before(groups: dict[relax.Var, Group], reader: FunctionIndex) -> list[Group]:
    """Return the layers whose epilogue is free for a function."""
    return [
        group
        for group in groups.values()
        if group.weight is not None
        and group.inputs
        and group.activation is None
        and group.output not in reader.results
    ]


def _positive_factors(group: Group | None) -> Group | None:
    """Return a group that does nothing but multiply channels by positive constants, else None."""
    if group is None or group.affine is None or group.activation is not None:
        return None
    return group if (group.affine.scale > 0).all() and not group.affine.shift.any() else None


def _append(group: Group, var: relax.Var, absorbed: set[relax.Var]) -> None:
    group.output = var
    group.members.append(var)
    absorbed.add(var)


def _by_output(groups: dict[relax.Var, Group], reader: FunctionIndex) -> list[Group]:
    return sorted(groups.values(), key=lambda group: reader.order[group.output])


def _per_channel(array: np.ndarray, shape: tuple[int, ...], axis: int) -> bool:
    """Say whether ``array``, broadcast to ``shape``, varies along ``axis`` at most."""
    padded = (1,) * (len(shape) - array.ndim) + array.shape
    axis %= len(shape)
    return all(extent == 1 for i, extent in enumerate(padded) if i != axis)
