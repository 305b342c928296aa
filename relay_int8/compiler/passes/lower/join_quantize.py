"""Fuse a quantize into the float kernel before it, where nothing else reads its result.

Norms, softmax, recurrent layers, and arithmetic with two tensors.

    Before:  y = call_dps_packed('{"kind": "normalize", "y": "float32", ...}', (x, ...))
             r = call_dps_packed('{"kind": "rescale", ...}', (y, bounds))               a ReLU
             t = call_dps_packed('{"kind": "move", "move": "transpose", ...}', (r,))
             q = call_dps_packed('{"kind": "quantize", ...}', (t, s, z, clamp))
    After:   r = call_dps_packed('{"kind": "normalize", "y": "int8", ...}', (x, ..., s, z, clamp'))
             q = call_dps_packed('{"kind": "move", "move": "transpose", ...}', (r,))

Place:  after LowerFloat, before ShiftSigns, which stores the integers as the target wants them.
Exact:  bit-identical; the kernel rounds its float32 as a quantize does, and moves compute nothing.
        A division by s and rint keep the order of numbers: bounds are quantized instead, those of
        arithmetic too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph import dataflow
from relay_int8.graph.origins import Origins
from relay_int8.graph.spec_calls import kernel_call, operands, spec_of
from schedules.spec import Binary, Move, Normalize, Quantize, Recurrence, Rescale, Softmax, Spec


@tvm.transform.module_pass(opt_level=0, name="JoinQuantize")
class JoinQuantize:
    """Fuse a quantize into the float kernel before it, where nothing else reads its result."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with fewer kernels; ``mod`` itself is left alone."""
        return _Joiner(mod).run()


class _Joiner:
    """Rewrites one function."""

    def __init__(self, mod: IRModule) -> None:
        self._func = mod["main"]
        self._values = dict(dataflow.calls(self._func))
        self._readers = dataflow.consumers(self._func)
        self._results = set(dataflow.results(self._func))
        self._writer = dataflow.FunctionWriter(mod, func=self._func)
        self._origins = Origins(self._func)
        self._done: dict[relax.Var, relax.Expr] = {}

    def run(self) -> IRModule:
        """Write the function anew."""
        chains = {var: chain for var in self._values if (chain := self._chain(var))}
        joined = {var for chain in chains.values() for var in chain}
        for var, value in self._values.items():
            if var in chains:
                self._done[var] = self._integers(var, chains[var])
            elif var not in joined:
                substituted = dataflow.substitute(value, self._done)
                self._done[var] = self._writer.emit(var.name, substituted)
        outputs = [self._done.get(var, var) for var in dataflow.results(self._func)]
        attributes = self._origins.added_to(dataflow.attributes(self._func))
        return self._writer.finish(self._func.params, outputs, attributes)

    def _chain(self, quantize: relax.Var) -> list[relax.Var]:
        """Return the kernel that a quantize joins and what is between them; empty if none."""
        value = self._values[quantize]
        if not isinstance(spec_of(value), Quantize):
            return []
        chain: list[relax.Var] = []
        source = value.args[1].fields[0]
        while self._is_read_once(source):
            chain.insert(0, source)
            spec = spec_of(self._values[source])
            if isinstance(spec, Normalize | Softmax | Recurrence) or _is_float_arithmetic(spec):
                return chain if spec.y == "float32" else []
            if not (_is_bound(spec) or (isinstance(spec, Move) and not spec.params)):
                return []
            source = self._values[source].args[1].fields[0]
        return []

    def _is_read_once(self, var: relax.Expr) -> bool:
        known = isinstance(var, relax.Var) and var in self._values
        return known and len(self._readers[var]) == 1 and var not in self._results

    def _integers(self, quantize: relax.Var, chain: list[relax.Var]) -> relax.Expr:
        """Emit what ``chain`` computes, in integers; the last one has the name of the quantize."""
        rounding = self._rounding(quantize, chain)
        movements = [var for var in chain[1:] if not _is_bound(spec_of(self._values[var]))]
        held: relax.Expr = chain[0]
        for var, after in zip([chain[0], *movements], [*movements, None], strict=True):
            tensor = chain[-1] if after is None else chain[chain.index(after) - 1]
            call = self._in_integers(var, held, dataflow.dtype(quantize), rounding)
            if after is None:
                held = self._writer.emit(quantize.name, call)
            else:
                held = self._writer.derive(f"{tensor.name}:int", call)
            self._origins.note(held, str(tensor.name), "result")
        return held

    def _rounding(self, quantize: relax.Var, chain: list[relax.Var]) -> dict[str, np.ndarray]:
        """Return scale, zero point and bounds of the integers, ReLU and clip among them."""
        params = self._params(quantize)
        for var in reversed(chain):
            if "clamp" in self._params(var):
                bounds = np.rint(self._params(var)["clamp"] / params["s"])
                params["clamp"] = np.clip(bounds, *params["clamp"])
        return params

    def _params(self, var: relax.Var) -> dict[str, np.ndarray]:
        value = self._values[var]
        spec = spec_of(value)
        assert spec is not None
        _, params = operands(value, spec)
        return params

    def _in_integers(
        self, var: relax.Var, held: relax.Expr, dtype: str, rounding: dict[str, np.ndarray]
    ) -> relax.Call:
        """Return the kernel of ``var`` with integers for a result; a move reads ``held``."""
        value = dataflow.substitute(self._values[var], self._done)
        spec: Any = spec_of(value)
        tensors, params = operands(value, spec)
        if isinstance(spec, Move):
            return kernel_call(replace(spec, x=dtype), [held], {}, like=var)  # type: ignore[arg-type]
        return kernel_call(replace(spec, y=dtype), tensors, params | rounding, like=var)


def _is_float_arithmetic(spec: Spec | None) -> TypeGuard[Binary]:
    return isinstance(spec, Binary) and spec.a == "float32"


def _is_bound(spec: Spec | None) -> bool:
    """Say whether a kernel does nothing but clamp floats: ReLU, clip."""
    return isinstance(spec, Rescale) and spec.x == "float32" and not spec.leaky
