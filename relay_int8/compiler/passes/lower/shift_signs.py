"""Store signed tensors as unsigned ones, for instructions that multiply u8 by s8.

    Before:  q int8, zero point z
    After:   q + 128 uint8, zero point z + 128

Place:  after LowerFloat, before AlterLayout, on targets whose instruction wants it.
Exact:  every integer is the same number 128 higher; clamp bounds are relative to the zero point,
        and stay. What enters or leaves the network as int8, or is read by operators without a
        spec, is moved there and back.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph import dataflow
from relay_int8.graph.origins import Origins
from relay_int8.graph.requantize import requantize_of
from relay_int8.graph.spec_calls import kernel_call, operands, spec_of
from relay_int8.numerics.multipliers import multiplier_constants
from relay_int8.numerics.qparams import SIGN
from schedules.spec import QType, Rescale, Spec


@tvm.transform.module_pass(opt_level=0, name="ShiftSigns")
class ShiftSigns:
    """Store signed tensors as unsigned ones."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module without int8 activations; ``mod`` itself is left alone."""
        return _Shifter(mod).run() if _has_integers(mod["main"]) else mod


def _has_integers(func: relax.Function) -> bool:
    """Say whether any tensor is one of int8."""
    tensors = (*func.params, *(var for var, _ in dataflow.calls(func)))
    return any(
        isinstance(tensor.ty, relax.TensorType) and dataflow.dtype(tensor) == "int8"
        for tensor in tensors
    )


class _Shifter:
    """Rewrites one function; int8 tensors as they are, as unsigned ones, or as both."""

    def __init__(self, mod: IRModule) -> None:
        self._func = mod["main"]
        self._writer = dataflow.FunctionWriter(mod, func=self._func)
        self._origins = Origins(self._func)
        self._plain: dict[relax.Var, relax.Expr] = {param: param for param in self._func.params}
        self._shifted: dict[relax.Var, relax.Expr] = {}

    def run(self) -> IRModule:
        """Write the function anew, its kernels on unsigned activations."""
        for var, value in dataflow.calls(self._func):
            spec = spec_of(value)
            reads = [arg for arg in dataflow.arguments(value) if isinstance(arg, relax.Var)]
            seen = self._as_unsigned if spec else self._as_it_is
            value = dataflow.substitute(value, {arg: seen(arg) for arg in reads})
            if spec is None:
                self._plain[var] = self._writer.emit(var.name, value)
                continue
            tensors, params = operands(value, spec)
            call = kernel_call(_unsigned(spec), tensors, _shifted(spec, params), like=var)
            kept = self._shifted if dataflow.dtype(var) == "int8" else self._plain
            kept[var] = self._writer.emit(var.name, call)
        outputs = [self._as_it_is(var) for var in dataflow.results(self._func)]
        attributes = self._origins.added_to(dataflow.attributes(self._func))
        return self._writer.finish(self._func.params, outputs, attributes)

    def _as_unsigned(self, var: relax.Var) -> relax.Expr:
        """Return a tensor as kernels read it."""
        if dataflow.dtype(var) != "int8":
            return self._plain[var]
        if var not in self._shifted:
            source = self._plain[var]
            self._shifted[var] = self._move(var, "unsigned", source, ("int8", "uint8"))
        return self._shifted[var]

    def _as_it_is(self, var: relax.Var) -> relax.Expr:
        """Return a tensor as the caller and operators of Relax have it."""
        if var not in self._plain:
            source = self._shifted[var]
            self._plain[var] = self._move(var, "signed", source, ("uint8", "int8"))
        return self._plain[var]

    def _move(
        self, var: relax.Var, ending: str, source: relax.Expr, types: tuple[QType, QType]
    ) -> relax.Var:
        """Add or subtract the shift."""
        zeros = [SIGN if dtype == "uint8" else 0 for dtype in types]
        x, y = types
        spec = Rescale(dims=dataflow.shape(source), x=x, y=y, requantize=requantize_of(self._func))
        params = {
            **multiplier_constants(spec, {"m": np.ones(1)}),
            "z": np.array(zeros, np.int32),
            "clamp": np.array([-SIGN, SIGN - 1], spec.constant_dtype("clamp")),
        }
        value = kernel_call(spec, [source], params)
        moved = self._writer.derive(f"{var.name}:{ending}", value)
        self._origins.note(moved, str(var.name), "sign")
        return moved


def _unsigned(spec: Spec) -> Spec:
    # "weights" is the type of a constant, which stays.
    types: dict[str, Any] = {
        field.name: "uint8"
        for field in dataclasses.fields(spec)
        if field.name != "weights" and getattr(spec, field.name) == "int8"
    }
    return dataclasses.replace(spec, **types)


def _shifted(spec: Spec, params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    shifted = dict(params)
    names = [*spec.tensors, "y"]
    if "z" in params:
        z = params["z"].copy()
        for index, name in enumerate(spec.zero_points):
            if name in names and spec.dtype(name) == "int8":
                z[index] += SIGN
        shifted["z"] = z
    for name in ("table", "fill", "bound"):
        if name in params and spec.dtype("y") == "int8":
            shifted[name] = (params[name].astype(np.int16) + SIGN).astype(np.uint8)
    return shifted
