"""Store signed tensors as unsigned ones, for instructions that multiply u8 by s8.

    Before:  q int8, zero point z
    After:   q + 128 uint8, zero point z + 128

Place:  after LowerFloat, before AlterLayout, on targets whose instruction wants it.
Exact:  every integer is the same number 128 higher; clamp bounds are relative to the zero point,
        and stay.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8 import graph
from relay_int8.kernel_call import kernel_call, operands, spec_of
from schedules.spec import Spec

SHIFT = 128
_ZERO_POINTS = {
    "conv2d": ("x", "y", "r"),
    "dense": ("x", "y"),
    "pool2d": ("x", "y"),
    "binary": ("a", "b", "y"),
    "rescale": ("x", "y"),
    "quantize": ("y",),
    "dequantize": ("x",),
}
"""Which tensor each element of a kernel's ``z`` belongs to."""


@tvm.transform.module_pass(opt_level=0, name="ShiftSigns")
class ShiftSigns:
    """Store signed tensors as unsigned ones."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module without int8 activations; ``mod`` itself is left alone."""
        func = mod["main"]
        writer = graph.FunctionWriter(mod)
        done: dict[relax.Var, relax.Expr] = {}
        for var, value in graph.calls(func):
            value = graph.substitute(value, done)
            spec = spec_of(value)
            if spec is not None:
                tensors, params = operands(value, spec)
                value = kernel_call(_unsigned(spec), tensors, _shifted(spec, params))
            done[var] = writer.emit(var.name, value)
        outputs = [done.get(var, var) for var in graph.results(func)]
        return writer.finish(func.params, outputs, graph.attributes(func))


def _unsigned(spec: Spec) -> Spec:
    types: dict[str, Any] = {
        field.name: "uint8"
        for field in dataclasses.fields(spec)
        if getattr(spec, field.name) == "int8"
    }
    return dataclasses.replace(spec, **types)


def _shifted(spec: Spec, params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    shifted = dict(params)
    names = [*spec.tensors, "y"]
    if "z" in params:
        z = params["z"].copy()
        for place, name in enumerate(_ZERO_POINTS[spec.kind]):
            if name in names and spec.dtype(name) == "int8":
                z[place] += SHIFT
        shifted["z"] = z
    for name in ("table", "fill"):
        if name in params and spec.dtype("y") == "int8":
            shifted[name] = (params[name].astype(np.int16) + SHIFT).astype(np.uint8)
    return shifted
