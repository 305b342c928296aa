"""Multiply float16 in convolutions and dense layers that stay float, where a user allows it.

    Before:  y = call_dps_packed('{"kind": "conv2d", "x": "float32", ...}', (x, w, b, clamp))
    After:   y = call_dps_packed('{"kind": "conv2d", "x": "float32", ..., "half": true}', (x, ...))

Place:  after LowerFloat, before AlterLayout, which packs the weights.
Exact:  lossy: x and w lose 13 of 24 bits before they are multiplied; x beyond float16 is infinite.

Left alone: layers that no template of the target multiplies so, as depthwise ones, and those with
a weight that float16 would have as infinite.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import tvm
from tvm import IRModule, relax
from tvm.target import Target

from relay_int8.graph import dataflow
from relay_int8.graph.declined import Declined, note_declined
from relay_int8.graph.spec_calls import kernel_call, operands, spec_of
from schedules.selection import select
from schedules.spec import Conv2d, Dense
from schedules.template import ScheduleError

TOO_LARGE = 65520.0  # smallest float32 number that float16 rounds to infinity


@tvm.transform.module_pass(opt_level=0, name="HalveFloats")
class HalveFloats:
    """Multiply float16 in convolutions and dense layers that stay float."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with halves; ``mod`` itself is left alone."""
        func = mod["main"]
        writer = dataflow.FunctionWriter(mod)
        done: dict[relax.Var, relax.Expr] = {}
        for var, value in dataflow.calls(func):
            value = dataflow.substitute(value, done)
            halved = _halved(var, value, self._target)
            if isinstance(halved, Declined):
                note_declined(str(var.name), halved)
            kept = halved is None or isinstance(halved, Declined)
            done[var] = writer.emit(var.name, value if kept else halved)
        outputs = [done.get(var, var) for var in dataflow.results(func)]
        return writer.finish(func.params, outputs, dataflow.attributes(func))


def _halved(var: relax.Var, value: relax.Expr, target: Target) -> relax.Expr | Declined | None:
    """Return the call of a kernel with products of float16, if there is one."""
    spec = spec_of(value)
    if not isinstance(spec, Conv2d | Dense) or spec.x != "float32":
        return None
    tensors, params = operands(value, spec)
    half = dataclasses.replace(spec, half=True)
    if not _fits(params["w"]):
        return Declined("its weights are no constants that float16 can hold")
    if not _has_kernel(half, target):
        return Declined(f"no {spec.kind} of {target.kind.name} multiplies float16 in its shape")
    return kernel_call(half, tensors, params, like=var)


def _fits(w: np.ndarray | relax.Expr) -> bool:
    return isinstance(w, np.ndarray) and bool(np.all(np.abs(w) < TOO_LARGE))


def _has_kernel(spec: Conv2d | Dense, target: Target) -> bool:
    try:
        select(spec, target)
    except ScheduleError:
        return False
    return True
