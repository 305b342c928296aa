"""Put a Q/DQ pair on every tensor of the plan and on the weights of integer layers.

    Before:  y = conv2d(x, w) + b
    After:   x_q = quantize(x, s, z);  x_dq = dequantize(x_q, s, z)
             w_q = quantize(w, s_w, 0, axis=0);  w_dq = dequantize(w_q, s_w, 0, axis=0)
             y = conv2d(x_dq, w_dq) + b

Place:  after calibration, before Realize.
Exact:  lossy by definition: this is the quantized network, in the ecosystem's own form.

Ranges narrower than their type (symmetric s8) are in the attribute ``int8.qrange`` of main: JSON,
name of the quantize's variable -> [qmin, qmax].
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph import dataflow
from relay_int8.graph.attributes import QRANGE
from relay_int8.graph.group import Group, Weight
from relay_int8.graph.groups import find_groups
from relay_int8.graph.plan import Plan
from relay_int8.graph.spec_calls import spec_of
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.registry import linear_of


@tvm.transform.module_pass(opt_level=0, name="InsertQdq")
class InsertQdq:
    """Put a Q/DQ pair on every tensor of the plan and on the weights of integer layers."""

    def __init__(self, plan: Plan, params: Mapping[str, QParams]) -> None:
        self._plan = plan
        self._params = params

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the QDQ module; ``mod`` itself is left alone."""
        return _Inserter(mod["main"], self._plan, self._params).run()


class _Inserter:
    """Rewrites one function: float tensors, and the results of their Q/DQ pairs."""

    def __init__(self, func: relax.Function, plan: Plan, params: Mapping[str, QParams]) -> None:
        self._func = func
        self._params = {name: params[item.like] for name, item in plan.tensors.items()}
        integer = plan.integer_layers
        groups = find_groups(func, separate=plan.additions)
        self._integer = {
            var: group for group in groups if group.name in integer for var in group.members
        }
        self._writer = dataflow.FunctionWriter(func=func)
        self._float: dict[relax.Var, relax.Expr] = {}
        self._dequantized: dict[relax.Var, relax.Var] = {}
        self._qrange: dict[str, tuple[int, int]] = {}

    def run(self) -> IRModule:
        """Write the function anew, a Q/DQ pair behind every tensor that has parameters."""
        for param in self._func.params:
            self._pair(param, param)
        for var, value in dataflow.calls(self._func):
            group = self._integer.get(var)
            value = self._reading(value, group)
            if group and group.weight and var.same_as(group.members[0]):
                value = self._with_weight(value, group)
            elif group and group.state_weight:
                value = self._with_state_weight(value, group.state_weight, var.name)
            new = self._writer.emit(var.name, value)
            self._float[var] = new
            self._pair(var, new)
        outputs = [self._seen_by(var, None) for var in dataflow.results(self._func)]
        attributes = dataflow.attributes(self._func) | {QRANGE: json.dumps(self._qrange)}
        return self._writer.finish(self._func.params, outputs, attributes)

    def _pair(self, var: relax.Var, value: relax.Var) -> None:
        params = self._params.get(var.name)
        if params is not None:
            self._dequantized[var] = self._emit_pair(
                value, params, np.asarray(params.scale), np.asarray(params.zero_point)
            )

    def _seen_by(self, var: relax.Var, reader: Group | None) -> relax.Expr:
        """Return what ``reader`` (None: a float operator or the caller) reads for ``var``."""
        integer_result = var in self._integer
        if var in self._dequantized and (reader is not None or integer_result):
            return self._dequantized[var]
        return self._float.get(var, var)

    def _reading(self, value: relax.Expr, group: Group | None) -> relax.Expr:
        inside = set(group.members) if group else set()
        floats = group.floats if group else []
        renamed = {
            arg: self._float[arg]
            if arg in inside
            else self._seen_by(arg, None if arg in floats else group)
            for arg in dataflow.arguments(value)
            if isinstance(arg, relax.Var)
        }
        return dataflow.substitute(value, renamed)

    def _with_weight(self, call: relax.Call, group: Group) -> relax.Call:
        """Replace the constant weights of an integer layer by their Q/DQ pair."""
        assert group.weight is not None
        record = linear_of(group)
        rows, axis = group.weight_rows, record.weight_axis
        scale = qparams.weight_scales(
            rows, group.bias_or_zero, self._params[group.inputs[0].name].scale
        )
        weight = self._weight_pair(group.weight.values, scale, axis, group.members[0].name)
        return dataflow.with_arguments(call, [call.args[0], weight])

    def _with_state_weight(self, call: relax.Call, weight: Weight, name: str) -> relax.Call:
        """Replace the constant weights of a recurrent layer's state by their Q/DQ pair."""
        scale = qparams.weight_scales(weight.values, np.zeros(len(weight.values)), np.float32(1))
        pair = self._weight_pair(weight.values, scale, 0, name)
        spec = spec_of(call)
        assert spec is not None
        fields = list(call.args[1].fields)
        fields[len(spec.tensors)] = pair
        arguments = [call.args[0], relax.Tuple(fields)]
        return relax.Call(call.op, arguments, call.attrs, call.ty_args)

    def _weight_pair(
        self, values: np.ndarray, scale: np.ndarray, axis: int, name: str
    ) -> relax.Var:
        params = QParams(np.float32(1), 0, -qparams.WEIGHT_MAX, qparams.WEIGHT_MAX, "int8")
        zeros = np.zeros(len(scale))
        return self._emit_pair(relax.const(values), params, scale, zeros, axis, f"{name}:w")

    def _emit_pair(
        self,
        value: relax.Expr,
        params: QParams,
        scale: np.ndarray,
        zero: np.ndarray,
        axis: int = -1,
        name: str | None = None,
    ) -> relax.Var:
        name = name or value.name
        s, z = relax.const(scale.astype(np.float32)), relax.const(zero.astype(params.dtype))
        q = self._writer.derive(f"{name}:q", relax.op.quantize(value, s, z, axis, params.dtype))
        info = np.iinfo(params.dtype)
        if (params.qmin, params.qmax) != (info.min, info.max):
            self._qrange[q.name] = (params.qmin, params.qmax)
        return self._writer.derive(f"{name}:dq", relax.op.dequantize(q, s, z, axis))
