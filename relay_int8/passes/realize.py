"""Turn a QDQ module into integers: Q/DQ pairs disappear into the kernels between them.

    Before:  y_q = quantize(relu(conv2d(dequantize(x_q), dequantize(w_q)) + b))
    After:   y = call_dps_packed('{"kind": "conv2d", ...}', (x, w, bias, m, z, clamp))

Place:  after InsertQdq (or the import of a QDQ model), before LowerFloat.
Exact:  the result equals the NumPy oracle on the QDQ module bit for bit; docs/design.md has the
        contract. An integer tensor keeps the name of the float tensor it stands for.
"""

from __future__ import annotations

import json
from typing import cast

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8 import graph
from relay_int8.analysis.groups import Group, find_groups
from relay_int8.annotate import MOVES
from relay_int8.integer_kernels import (
    Kernel,
    dequantize_kernel,
    integer_kernel,
    quantize_kernel,
    rescale_kernel,
)
from relay_int8.kernel_call import kernel_call
from relay_int8.passes.insert_qdq import QRANGE
from relay_int8.qparams import QParams
from schedules.spec import DType, Move


@tvm.transform.module_pass(opt_level=0, name="Realize")
class Realize:
    """Turn a QDQ module into integers."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the integer module; ``mod`` itself is left alone."""
        return _Realizer(mod["main"]).run()


class _Realizer:
    """One walk over a QDQ function; ``_integers`` maps Q and DQ variables to integer tensors."""

    def __init__(self, func: relax.Function) -> None:
        self._func = func
        self._readers = graph.consumers(func)
        self._values = dict(graph.calls(func))
        self._qrange = json.loads(str(graph.attributes(func).get(QRANGE, "{}")))
        self._writer = graph.FunctionWriter()
        self._integers: dict[relax.Var, tuple[relax.Var, QParams]] = {}
        self._floats: dict[relax.Var, relax.Var] = {param: param for param in func.params}
        self._results = graph.results(func)

    def run(self) -> IRModule:
        for group in find_groups(self._func):
            if group.kind == "quantize":
                self._quantize(group)
            elif group.kind == "dequantize":
                self._dequantize(group)
            elif (integers := self._integer_inputs(group)) is not None:
                self._integer(group, integers)
            else:
                self._float(group)
        outputs = [self._float_of(var) for var in self._results]
        attributes = graph.attributes(self._func)
        attributes.pop(QRANGE, None)
        return self._writer.finish(self._func.params, outputs, attributes)

    def _quantize(self, group: Group) -> None:
        """Quantize a float tensor; the Q of an integer group is that group's own business."""
        if group.output in self._integers or not group.inputs:
            return
        source = self._floats[group.inputs[0]]
        params = self._params(group.output)
        var = self._emit(
            f"{source.name}:int", quantize_kernel(graph.shape(source), params), [source]
        )
        self._integers[group.output] = var, params

    def _dequantize(self, group: Group) -> None:
        if group.inputs and group.inputs[0] in self._integers:
            self._integers[group.output] = self._integers[group.inputs[0]]

    def _integer_inputs(self, group: Group) -> list[tuple[relax.Var, QParams]] | None:
        """Return the integer inputs of a group that is to be integer, else None."""
        if not group.inputs or any(var not in self._integers for var in group.inputs):
            return None
        if group.kind in ("conv2d", "dense"):
            if group.weight is None or group.weight.scale is None:
                return None
            if group.residual and self._quantized_as(group.output) is None:
                return None
        elif self._quantized_as(group.output) is None:
            return None
        return [self._integers[var] for var in group.inputs]

    def _integer(self, group: Group, inputs: list[tuple[relax.Var, QParams]]) -> None:
        quantize = self._quantized_as(group.output)
        y = None if quantize is None else self._params(quantize)
        tensors = [var for var, _ in inputs]
        xs = [params for _, params in inputs]
        if y is not None and group.kind in (*MOVES, "concat"):
            tensors = [self._rescaled(var, x, y) for var, x in inputs]
            xs = [y] * len(xs)
        spec, constants = integer_kernel(group, xs, y)
        if group.kind == "dense":
            tensors = [self._reshaped(tensors[0], spec.shape("x"))]
        var = self._emit(group.name, (spec, constants), tensors)
        if group.kind == "dense":
            var = self._reshaped(var, graph.shape(group.output))
        if quantize is None or y is None:
            self._floats[group.output] = var
        else:
            self._integers[quantize] = var, y

    def _float(self, group: Group) -> None:
        for member in group.members:
            value = self._values[member]
            renamed = {
                arg: self._float_of(arg)
                for arg in graph.arguments(value)
                if isinstance(arg, relax.Var)
            }
            self._floats[member] = self._writer.emit(member.name, graph.substitute(value, renamed))

    def _float_of(self, var: relax.Var) -> relax.Var:
        """Return a float tensor, dequantizing where it exists in integers alone."""
        if var not in self._floats:
            source, params = self._integers[var]
            kernel = dequantize_kernel(graph.shape(source), params)
            self._floats[var] = self._emit(f"{source.name}:float", kernel, [source])
        return self._floats[var]

    def _rescaled(self, var: relax.Var, x: QParams, y: QParams) -> relax.Var:
        if x == y:
            return var
        kernel = rescale_kernel(graph.shape(var), x, y)
        return self._emit(f"{var.name}:rescaled", kernel, [var])

    def _reshaped(self, var: relax.Var, shape: tuple[int, ...]) -> relax.Var:
        if graph.shape(var) == tuple(shape):
            return var
        dtype = cast(DType, graph.dtype(var))
        spec = Move(move="reshape", x_shape=graph.shape(var), y_shape=shape, x=dtype)
        return self._emit(f"{var.name}:reshaped", (spec, {}), [var])

    def _emit(self, name: str, kernel: Kernel, tensors: list[relax.Var]) -> relax.Var:
        return self._writer.emit(name, kernel_call(kernel[0], tensors, kernel[1]))

    def _quantized_as(self, var: relax.Var) -> relax.Var | None:
        """Return the quantize that is the only reader of ``var``, or None."""
        readers = self._readers[var]
        if len(readers) != 1 or var in self._results:
            return None
        return readers[0] if graph.operator(self._values[readers[0]]) == "quantize" else None

    def _params(self, quantize: relax.Var) -> QParams:
        call = self._values[quantize]
        scale, zero = (graph.constant(argument) for argument in call.args[1:])
        assert scale is not None and zero is not None
        dtype = graph.dtype(quantize)
        info = np.iinfo(dtype)
        qmin, qmax = self._qrange.get(quantize.name, (info.min, info.max))
        return QParams(np.float32(scale), int(zero), qmin, qmax, dtype)  # type: ignore[arg-type]
