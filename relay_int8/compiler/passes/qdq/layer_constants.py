"""The traversal by which CorrectBias and ReplaceWeights give layers other weights and biases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import IRModule, relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.operators.registry import linear_of

Array = npt.NDArray[Any]


def with_constants(
    func: relax.Function,
    layers: Sequence[Group],
    weights: Mapping[str, Array],
    biases: Mapping[str, Array],
) -> IRModule:
    """Return the network with other constants.

    A layer without bias that gets one keeps its result's name.

    Parameters
    ----------
    func
        A float network.
    layers
        Those of it that have weights.
    weights, biases
        By name of a layer: weights shaped as its own, (channels,) bias. What is missing stays.
    """
    heads = {layer.members[0]: layer for layer in layers}
    sums = {layer.members[1]: layer for layer in layers if layer.bias is not None}
    writer = dataflow.FunctionWriter(func=func)
    done: dict[relax.Var, relax.Expr] = {}
    for var, value in dataflow.calls(func):
        value = dataflow.substitute(value, done)
        if var in sums and sums[var].name in biases:
            value = relax.op.add(done[sums[var].members[0]], _addend(sums[var], biases))
        elif var in heads:
            value = _weighted(value, heads[var], weights)
            if heads[var].bias is None and heads[var].name in biases:
                product = writer.derive(f"{var.name}:product", value)
                value = relax.op.add(product, _addend(heads[var], biases))
        done[var] = writer.emit(var.name, value)
    outputs = [done.get(var, var) for var in dataflow.results(func)]
    return writer.finish(func.params, outputs, dataflow.attributes(func))


def _weighted(call: relax.Call, layer: Group, weights: Mapping[str, Array]) -> relax.Call:
    if layer.name not in weights:
        return call
    w = np.ascontiguousarray(weights[layer.name], dtype=np.float32)
    return dataflow.with_arguments(call, [call.args[0], relax.const(w)])


def _addend(layer: Group, biases: Mapping[str, Array]) -> relax.Expr:
    record = linear_of(layer)
    return relax.const(record.addend(np.asarray(biases[layer.name], np.float32)))
