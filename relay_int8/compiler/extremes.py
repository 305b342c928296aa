"""How maxima and minima over axes become loops: by the reductions of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax, te, tirx

from schedules.bodies.extremes import maximum, minimum

Legalize = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def _legalized(reduce: Any, name: str) -> Legalize:
    def _reduced(x: te.Tensor, axes: list[int], keepdims: bool) -> te.Tensor:
        steps = {axis: te.reduce_axis((0, x.shape[axis]), f"k{axis}") for axis in axes}
        kept = [axis for axis in range(len(x.shape)) if keepdims or axis not in steps]
        dims = [1 if axis in steps else x.shape[axis] for axis in kept]

        def _at(*indices: tirx.Var) -> Any:
            places = {**dict(zip(kept, indices, strict=True)), **steps}
            return reduce(x[tuple(places[axis] for axis in range(len(x.shape)))], [*steps.values()])

        return te.compute(dims, _at, name="reduced")

    def _legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        x, axes, keepdims = call.args[0], call.attrs.axis, bool(call.attrs.keepdims)
        count = len(x.ty.shape)
        every = range(count) if axes is None else [int(axis) % count for axis in axes]
        return builder.call_te(_reduced, x, [*every], keepdims, primfunc_name_hint=name)

    return _legalize


EXTREMES = {"relax.max": _legalized(maximum, "max"), "relax.min": _legalized(minimum, "min")}
"""For ``relax.transform.LegalizeOps``."""
