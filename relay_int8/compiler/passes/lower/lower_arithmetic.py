"""Give element-wise arithmetic of floats kernels that serve tensors of any size.

    Before:  y = add(x, 3)                                         x: (1, 24, 56, 56)
    After:   y = call_dps_packed('{"kind": "arithmetic", "function": "add", ...}', (x, [3]))

Place:  after JoinQuantize, in networks that run briefly; TVM's own lowering takes what is left.
Exact:  bit-identical: one operator is one kernel, whose elements are independent.

TVM makes a kernel for each size, of row-major tensors. These take blocks of channels too, so that
nothing is repacked around them.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import constant, dtype, number, operator, shape
from relay_int8.graph.rewriting import Scope, rewrite_main
from relay_int8.graph.spec_calls import kernel_call
from schedules.cpu.open_size.arithmetic import computes
from schedules.spec import Arithmetic
from schedules.spec.arithmetic import Function

FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "add": ("add", "add"),
    "subtract": ("sub", "rsub"),
    "multiply": ("mul", "mul"),
    "divide": ("div", "rdiv"),
    "maximum": ("max", "max"),
    "minimum": ("min", "min"),
}
"""Relax's operator -> the function, and that of swapped operands."""


@tvm.transform.module_pass(opt_level=0, name="LowerArithmetic")
class LowerArithmetic:
    """Give element-wise arithmetic of floats kernels that serve tensors of any size."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the lowered module; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _kernel_call)


def _kernel_call(_scope: Scope, value: relax.Expr) -> relax.Expr | None:
    op = operator(value)
    if op == "negative" and _is_float(value) and computes(shape(value), ()):
        return kernel_call(Arithmetic(function="negative", dims=shape(value)), value.args, {})
    if op == "clip" and _is_float(value) and computes(shape(value), ()):
        x, *bounds = value.args
        clamp = np.array([number(bound) for bound in bounds], np.float32)
        return kernel_call(Arithmetic(function="clip", dims=shape(value)), [x], {"clamp": clamp})
    if op not in FUNCTIONS or not all(map(_is_float, (value, *value.args))):
        return None
    a, b = (_as_vector(operand) for operand in value.args)
    for function, x, other in zip(FUNCTIONS[op], (a, b), (b, a), strict=True):
        if shape(x) == shape(value) and computes(shape(x), shape(other)):
            spec = Arithmetic(function=function, dims=shape(x), b_dims=shape(other))
            return kernel_call(spec, [x, other], {})
    return None


def _as_vector(operand: relax.Expr) -> relax.Expr:
    """Return a constant of one element with one axis, which fits every layout; else the operand."""
    array = constant(operand)
    return operand if array is None or array.size != 1 else relax.const(array.reshape(1))


def _is_float(value: relax.Expr) -> bool:
    """Say whether an operand is a float32 tensor that has axes, or a constant."""
    if not isinstance(value.ty, relax.TensorType) or dtype(value) != "float32":
        return False
    return bool(shape(value)) or constant(value) is not None
