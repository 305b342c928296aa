"""Which operators become one kernel: a root operator with what its epilogue absorbs.

Serves float and QDQ modules alike: annotate, realize and the float lowering see the same groups.

    a tree of elementwise operators of one tensor: see ``graph.functions``
    sums and products with one constant a channel: see ``graph.channel_affine``
    reshape -> permute_dims -> reshape -> strided_slice: see ``graph.shuffles``
    softmax of a product of two activations, times a third: see ``graph.attention``
    conv2d | matmul  -> + constant bias -> + residual -> relu | clip | leaky_relu | prelu
    conv2d | matmul  -> + constant bias -> a function that ``graph.gates`` knows
    add | subtract | multiply | divide | maximum | minimum | avg_pool2d | affine -> relu | clip

An operator is absorbed when it is the only reader of what comes before it. Of two convolutions
that are added, the last in topological order takes the addition; the other one's result is its
residual.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.attention import find_attention
from relay_int8.graph.channel_affine import ChannelAffine, find_channel_affines
from relay_int8.graph.functions import Function, find_functions
from relay_int8.graph.gates import activation_of
from relay_int8.graph.group import (
    AFFINE,
    CONV2D,
    DENSE,
    INTERPOLATE,
    SAMPLE,
    Clip,
    Group,
    Leaky,
    Smooth,
    Weight,
)
from relay_int8.graph.matrix_products import Surroundings, find_products
from relay_int8.graph.shuffles import Shuffle, find_shuffles
from relay_int8.graph.spec_calls import operands, spec_of
from relay_int8.numerics.unary import UNARY
from schedules.spec import Sample2d

KINDS = {
    "nn.conv2d": CONV2D,
    "matmul": DENSE,
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "maximum": "max",
    "minimum": "min",
    "max": "reduce_max",
    "min": "reduce_min",
    "concat": "concat",
    "nn.max_pool2d": "max_pool2d",
    "nn.avg_pool2d": "avg_pool2d",
    "reshape": "reshape",
    "permute_dims": "transpose",
    "strided_slice": "slice",
    "split": "split",
    "tuple_get_item": "part",
    "nn.pad": "pad",
    "image.resize2d": "resize",
    "nn.relu": "activation",
    "clip": "activation",
    "nn.leakyrelu": "activation",
    "nn.prelu": "activation",
    "quantize": "quantize",
    "dequantize": "dequantize",
}
"""Relax operator -> kind of group; any other operator is a group of its own kind."""

PAIRS = ("add", "sub", "mul", "div", "max", "min")
"""Kinds that compute each element from one of either operand."""

BOUNDED = (CONV2D, DENSE, "avg_pool2d", AFFINE, *PAIRS)
"""Kinds whose kernels clamp their result, so that an activation behind them is theirs."""


class _Reader:
    """One function, indexed: what binds each variable and who reads it."""

    def __init__(self, func: relax.Function) -> None:
        self.values = dict(dataflow.calls(func))
        self.order = {var: position for position, var in enumerate(self.values)}
        self.readers = dataflow.consumers(func)
        self.results = set(dataflow.results(func))

    def sole_reader(self, var: relax.Var) -> relax.Var | None:
        """Return the only reader of a tensor that is no result of the function, or None."""
        readers = self.readers[var]
        return readers[0] if len(readers) == 1 and var not in self.results else None

    def is_weight(self, value: relax.Expr) -> bool:
        """Say whether :meth:`weight` finds one, copying nothing."""
        call = self.values.get(value)
        if call is not None and dataflow.operator(call) == "dequantize":
            quantize = self.values.get(call.args[0])
            if quantize is not None and dataflow.operator(quantize) == "quantize":
                value = quantize.args[0]
        return isinstance(value, tvm.ir.GenericConst)

    def weight(self, value: relax.Expr) -> Weight | None:
        """Return constant weights, plain or behind a Q/DQ pair, or None."""
        array = dataflow.constant(value)
        if array is not None:
            return Weight(array)
        call = self.values.get(value)
        if call is None or dataflow.operator(call) != "dequantize":
            return None
        quantize = self.values.get(call.args[0])
        if quantize is None or dataflow.operator(quantize) != "quantize":
            return None
        array, scale, zero = (dataflow.constant(argument) for argument in quantize.args)
        return None if array is None else Weight(array, scale, zero)


def find_groups(
    func: relax.Function,
    alone: Collection[str] = (),
    *,
    attention: bool = True,
    functions: bool = True,
) -> list[Group]:
    """Return the groups of ``func``, ordered by where their results are bound.

    Parameters
    ----------
    func
        A function in canonical form, with or without Q/DQ pairs.
    alone
        Names of tensors whose operator is not to be absorbed as a residual addition, or whose
        function is not to be absorbed by the layer before it.
    attention
        Whether attention is one group; otherwise its two products and its softmax are.
    functions
        Whether layers absorb functions at all.
    """
    reader = _Reader(func)
    groups: dict[relax.Var, Group] = {}
    absorbed: set[relax.Var] = set()
    biases = _biases(reader)
    for group in _composed(reader, set(biases), attention):
        groups[group.members[0]] = group
        absorbed.update(group.members[1:])
    for var, value in reader.values.items():
        if var in absorbed or var in groups:
            continue
        group = _root_group(reader, var, value)
        groups[var] = group
        add = reader.sole_reader(var)
        if add in biases:
            group.bias = biases[add]
            _append(group, add, absorbed)
    for group in _by_output(groups, reader):
        if group.kind == CONV2D and group.output.name not in alone:
            _absorb_residual(reader, group, groups, absorbed, alone)
    for group in groups.values():
        _absorb_activation(reader, group, absorbed)
    for group in _layers_before(groups, reader) if functions else ():
        _absorb_function(reader, group, groups, absorbed, alone)
    heads = {var: group for var, group in groups.items() if var not in absorbed}
    return _by_output(heads, reader)


def _composed(reader: _Reader, biases: set[relax.Var], attention: bool) -> Iterator[Group]:
    """Yield the groups of several operators: products of activations, functions, moves."""
    parts = (reader.values, reader.readers, reader.results)
    taken = set(biases)
    for group in _products(reader, attention):
        taken.update(group.members)
        yield group
    affines = find_channel_affines(*parts, taken)
    in_affines = {var for affine in affines for var, _ in affine.members}
    for affine in affines:
        yield _chain(AFFINE, affine, affine=affine)
    for function in find_functions(*parts, taken | in_affines):
        yield _chain("function", function, function=function)
    for shuffle in find_shuffles(*parts):
        if not any(var in taken for var, _ in shuffle.members):
            yield _chain("shuffle", shuffle, shuffle=shuffle)


def _products(reader: _Reader, attention: bool) -> Iterator[Group]:
    """Yield the products of two activations, those of attention as one."""
    around = Surroundings(reader.values, reader.readers, reader.results)
    for each in find_attention(around) if attention else ():
        tensor = each.mask and each.mask.tensor
        yield Group(
            kind="attention",
            root=reader.values[each.root],
            inputs=[each.q.tensor, each.k.tensor, each.v.tensor],
            output=each.y.tensor,
            members=list(each.members),
            floats=[] if tensor is None else [tensor],
            attention=each,
        )
    for product in find_products(around, reader.is_weight):
        values = [reader.values[member] for member in product.members]
        yield Group(
            kind="product",
            root=next(value for value in values if dataflow.operator(value) == "matmul"),
            inputs=[product.a.tensor, product.b.tensor],
            output=product.y.tensor,
            members=list(product.members),
            product=product,
        )


def _chain(kind: str, found: ChannelAffine | Function | Shuffle, **as_field: Any) -> Group:
    output, root = found.members[-1]
    return Group(kind, root, [found.source], output, [var for var, _ in found.members], **as_field)


def _root_group(reader: _Reader, var: relax.Var, value: relax.Expr) -> Group:
    operator = dataflow.operator(value)
    spec = spec_of(value)
    kind = KINDS.get(operator, operator)
    if isinstance(spec, Sample2d):
        tensors, _ = operands(value, spec)
        is_constant = any(dataflow.constant(tensor) is not None for tensor in tensors)
        kind = "sampling by constants" if is_constant else SAMPLE
    if kind == "resize" and value.attrs.method == "linear":
        kind = INTERPOLATE
    inputs = [arg for arg in dataflow.arguments(value) if isinstance(arg, relax.Var)]
    group = Group(kind=kind, root=value, inputs=inputs, output=var, members=[var])
    if group.is_layer:
        group.weight = reader.weight(value.args[1])
        if group.weight is not None:
            group.inputs = [arg for arg in value.args[:1] if isinstance(arg, relax.Var)]
    elif kind == "activation":
        group.activation = _activation(value)
        group.inputs = [arg for arg in value.args[:1] if isinstance(arg, relax.Var)]
    elif kind == SAMPLE and spec is not None and len(inputs) == len(spec.tensors):
        group.inputs, group.floats = inputs[:1], inputs[1:]
    elif kind in PAIRS and len(inputs) == 2 and dataflow.shape(inputs[0]) != dataflow.shape(value):
        group.inputs.reverse()  # the one that is broadcast comes second
    return group


def _biases(reader: _Reader) -> dict[relax.Var, np.ndarray]:
    """Return what is added to each channel of a convolution or product by constant weights."""
    found = {}
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
            found[add] = np.broadcast_to(bias.reshape(-1), (dataflow.shape(add)[axis],)).copy()
    return found


def _absorb_residual(
    reader: _Reader,
    group: Group,
    groups: dict[relax.Var, Group],
    absorbed: set[relax.Var],
    alone: Collection[str],
) -> None:
    add = reader.sole_reader(group.output)
    if add is None or dataflow.operator(reader.values[add]) != "add" or add.name in alone:
        return
    if not group.inputs:
        return
    other = [arg for arg in reader.values[add].args if not group.output.same_as(arg)]
    if len(other) != 1 or not isinstance(other[0], relax.Var) or add in absorbed:
        return
    if dataflow.shape(other[0]) != dataflow.shape(group.output):
        return
    if reader.order.get(other[0], -1) > reader.order[group.output] and _is_rival(
        other[0], groups, reader
    ):
        return
    group.inputs.append(other[0])
    group.residual = True
    _append(group, add, absorbed)


def _is_rival(var: relax.Var, groups: dict[relax.Var, Group], reader: _Reader) -> bool:
    """Say whether ``var`` comes from a convolution that could absorb the addition itself."""
    convolutions = (group for group in groups.values() if group.kind == CONV2D)
    return reader.sole_reader(var) is not None and any(
        rival.output.same_as(var) for rival in convolutions
    )


def _absorb_activation(reader: _Reader, group: Group, absorbed: set[relax.Var]) -> None:
    follower = reader.sole_reader(group.output)
    if follower is None or follower in absorbed or group.activation is not None:
        return
    if group.kind not in BOUNDED:
        return
    if group.is_layer and group.weight is None:
        return
    activation = _activation(reader.values[follower])
    if isinstance(activation, Leaky):
        if not group.is_layer or group.residual:
            return
        # The channels of a product are its last axis, those of PReLU axis 1.
        rank = len(dataflow.shape(follower))
        if group.kind == DENSE and rank != 2 and activation.slope.size > 1:
            return
    if activation is not None:
        group.activation = activation
        _append(group, follower, absorbed)


def _layers_before(groups: dict[relax.Var, Group], reader: _Reader) -> list[Group]:
    """Return the layers whose epilogue is free for a function."""
    return [
        group
        for group in groups.values()
        if group.weight is not None
        and group.inputs
        and group.activation is None
        and not group.residual
        and group.output not in reader.results
    ]


def _absorb_function(
    reader: _Reader,
    layer: Group,
    groups: dict[relax.Var, Group],
    absorbed: set[relax.Var],
    alone: Collection[str],
) -> None:
    """Let a layer compute the function that is the only reader of its result."""
    readers = reader.readers[layer.output]
    follower = next((groups[var] for var in readers if var in groups), None)
    if follower is None or follower.name in alone or not set(readers) <= set(follower.members):
        return
    function = follower.function or UNARY.get(follower.kind)
    name = function and activation_of(function)
    if function is None or name is None:
        return
    layer.activation = Smooth(name, follower.kind, function)
    for member in follower.members:
        _append(layer, member, absorbed)


def _append(group: Group, var: relax.Var, absorbed: set[relax.Var]) -> None:
    group.output = var
    group.members.append(var)
    absorbed.add(var)


def _by_output(groups: dict[relax.Var, Group], reader: _Reader) -> list[Group]:
    return sorted(groups.values(), key=lambda group: reader.order[group.output])


def _per_channel(array: np.ndarray, shape: tuple[int, ...], axis: int) -> bool:
    """Say whether ``array``, broadcast to ``shape``, varies along ``axis`` at most."""
    padded = (1,) * (len(shape) - array.ndim) + array.shape
    axis %= len(shape)
    return all(extent == 1 for i, extent in enumerate(padded) if i != axis)


def _activation(value: relax.Expr) -> Clip | Leaky | None:
    operator = dataflow.operator(value)
    if operator == "nn.relu":
        return Clip(0.0, np.inf)
    if operator == "clip":
        return Clip(*(_number(bound) for bound in value.args[1:]))
    if operator == "nn.leakyrelu":
        return Leaky(np.array([float(value.attrs.alpha)]))
    if operator == "nn.prelu" and int(value.attrs.axis) == 1:
        slope = dataflow.constant(value.args[1])
        return None if slope is None else Leaky(slope.astype(np.float64).reshape(-1))
    return None


def _number(value: relax.Expr) -> float:
    array = dataflow.constant(value)
    return float(value.value) if array is None else float(array)
