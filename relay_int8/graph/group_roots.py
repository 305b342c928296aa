"""The groups of a function before any absorbs another one: roots, and operators of several calls.

a tree of elementwise operators of one tensor: see ``graph.functions``
sums and products with one constant a channel: see ``graph.channel_affine``
reshape -> permute_dims -> reshape -> strided_slice: see ``graph.shuffles``
softmax of a product of two activations, times a third: see ``graph.attention``
any other operator: a group of its own
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.attention import find_attention
from relay_int8.graph.channel_affine import ChannelAffine, find_channel_affines
from relay_int8.graph.functions import FunctionSubgraph, find_functions
from relay_int8.graph.group import (
    AFFINE,
    CONV2D,
    DENSE,
    INTERPOLATE,
    RECURRENCE,
    SAMPLE,
    Clip,
    Group,
    Leaky,
    Weight,
)
from relay_int8.graph.matrix_products import Surroundings, find_products
from relay_int8.graph.shuffles import ShuffleSubgraph, find_shuffles
from relay_int8.graph.spec_calls import operands, spec_of
from schedules.spec import Recurrence, Sample2d, Suppression

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


class FunctionIndex:
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


def composed_groups(
    index: FunctionIndex, biases: set[relax.Var], *, attention: bool, functions: bool
) -> Iterator[Group]:
    """Yield the groups of several operators: products of activations, functions, moves."""
    parts = (index.values, index.readers, index.results)
    taken = set(biases)
    for group in _products(index, attention):
        taken.update(group.members)
        yield group
    affines = find_channel_affines(*parts, taken)
    in_affines = {var for affine in affines for var, _ in affine.members}
    for affine in affines:
        yield _chain(AFFINE, affine, affine=affine)
    for function in find_functions(*parts, taken | in_affines) if functions else ():
        yield _chain("function", function, function=function)
    for shuffle in find_shuffles(*parts):
        if not any(var in taken for var, _ in shuffle.members):
            yield _chain("shuffle", shuffle, shuffle=shuffle)


def _products(index: FunctionIndex, attention: bool) -> Iterator[Group]:
    """Yield the products of two activations, those of attention as one."""
    around = Surroundings(index.values, index.readers, index.results)
    for each in find_attention(around) if attention else ():
        tensor = each.mask and each.mask.tensor
        yield Group(
            kind="attention",
            root=index.values[each.root],
            inputs=[each.q.tensor, each.k.tensor, each.v.tensor],
            output=each.y.tensor,
            members=list(each.members),
            floats=[] if tensor is None else [tensor],
            attention=each,
        )
    for product in find_products(around, index.is_weight):
        values = [index.values[member] for member in product.members]
        yield Group(
            kind="product",
            root=next(value for value in values if dataflow.operator(value) == "matmul"),
            inputs=[product.a.tensor, product.b.tensor],
            output=product.y.tensor,
            members=list(product.members),
            product=product,
        )


def _chain(
    kind: str, chain: ChannelAffine | FunctionSubgraph | ShuffleSubgraph, **as_field: Any
) -> Group:
    output, root = chain.members[-1]
    return Group(kind, root, [chain.source], output, [var for var, _ in chain.members], **as_field)


def root_group(index: FunctionIndex, var: relax.Var, value: relax.Expr) -> Group:
    """Return the group of one call."""
    operator = dataflow.operator(value)
    spec = spec_of(value)
    kind = KINDS.get(operator, operator)
    if isinstance(spec, Sample2d):
        tensors, _ = operands(value, spec)
        is_constant = any(dataflow.constant(tensor) is not None for tensor in tensors)
        kind = "sampling by constants" if is_constant else SAMPLE
    if isinstance(spec, Suppression):
        kind = spec.kind
    if isinstance(spec, Recurrence):
        (x, *states), _ = operands(value, spec)
        are_variables = {isinstance(state, relax.Var) for state in states}
        is_known = isinstance(x, relax.Var) and len(are_variables) <= 1
        kind = RECURRENCE if is_known else "recurrence of constants"
    if kind == "resize" and value.attrs.method == "linear":
        kind = INTERPOLATE
    inputs = [arg for arg in dataflow.arguments(value) if isinstance(arg, relax.Var)]
    group = Group(kind=kind, root=value, inputs=inputs, output=var, members=[var])
    if group.is_layer:
        group.weight = index.weight(value.args[1])
        if group.weight is not None:
            group.inputs = [arg for arg in value.args[:1] if isinstance(arg, relax.Var)]
    elif kind == "activation":
        group.activation = clip_or_slope(value)
        group.inputs = [arg for arg in value.args[:1] if isinstance(arg, relax.Var)]
    elif kind == SAMPLE and spec is not None and len(inputs) == len(spec.tensors):
        group.inputs, group.floats = inputs[:1], inputs[1:]
    elif kind == RECURRENCE and spec is not None:
        fields, count = value.args[1].fields, len(spec.tensors)
        group.state_weight = index.weight(fields[count])
        group.inputs = []
        group.floats = [field for field in fields[:count] if isinstance(field, relax.Var)]
    elif kind in PAIRS and len(inputs) == 2 and dataflow.shape(inputs[0]) != dataflow.shape(value):
        group.inputs.reverse()  # the one that is broadcast comes second
    return group


def clip_or_slope(value: relax.Expr) -> Clip | Leaky | None:
    """Return the clamp or the negative slope that a call computes, or None."""
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
