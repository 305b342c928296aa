"""Give layers other weights and biases.

    Before:  y = conv2d(x, w) + b
    After:   y = conv2d(x, w') + b'

Place:  before InsertQdq: what searches for better constants hands them over here.
Exact:  as the new constants are. A layer without bias that gets one keeps its result's name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import IRModule, relax

from relay_int8.graph import dataflow
from relay_int8.graph.groups import Group, find_groups
from relay_int8.operators.registry import linear_of

Array = npt.NDArray[Any]


@tvm.transform.module_pass(opt_level=0, name="ReplaceWeights")
class ReplaceWeights:
    """Give layers other weights and biases.

    Parameters
    ----------
    weights
        Layer -> weights, shaped as its own.
    biases
        Layer -> (channels,) bias.
    alone
        Additions that are layers of their own (``find_groups``).
    """

    def __init__(
        self,
        weights: Mapping[str, Array],
        biases: Mapping[str, Array],
        alone: Collection[str] = (),
    ) -> None:
        self._weights = weights
        self._biases = biases
        self._alone = alone

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with the new constants; ``mod`` itself is left alone."""
        func = mod["main"]
        layers = [group for group in find_groups(func, self._alone) if group.weight is not None]
        heads = {layer.members[0]: layer for layer in layers}
        sums = {layer.members[1]: layer for layer in layers if layer.bias is not None}
        writer = dataflow.FunctionWriter()
        done: dict[relax.Var, relax.Expr] = {}
        for var, value in dataflow.calls(func):
            value = dataflow.substitute(value, done)
            if var in sums and sums[var].name in self._biases:
                value = relax.op.add(done[sums[var].members[0]], self._bias(sums[var]))
            elif var in heads:
                value = self._weighted(value, heads[var])
                if heads[var].bias is None and heads[var].name in self._biases:
                    product = writer.emit(f"{var.name}:product", value)
                    value = relax.op.add(product, self._bias(heads[var]))
            done[var] = writer.emit(var.name, value)
        outputs = [done.get(var, var) for var in dataflow.results(func)]
        return writer.finish(func.params, outputs, dataflow.attributes(func))

    def _weighted(self, call: relax.Call, layer: Group) -> relax.Call:
        if layer.name not in self._weights:
            return call
        w = np.ascontiguousarray(self._weights[layer.name], dtype=np.float32)
        return relax.Call(call.op, [call.args[0], relax.const(w)], call.attrs, call.ty_args)

    def _bias(self, layer: Group) -> relax.Expr:
        record = linear_of(layer)
        assert record is not None
        return relax.const(record.addend(np.asarray(self._biases[layer.name], np.float32)))
