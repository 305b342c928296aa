"""Legalization of maxima and minima over axes in float islands, by reductions of our own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tvm import relax

from schedules.bodies.extremes import maximum, minimum, over_axes

Legalize = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def _legalized(reduce: Any, name: str) -> Legalize:
    def _legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        x, axes, keepdims = call.args[0], call.attrs.axis, bool(call.attrs.keepdims)
        count = len(x.ty.shape)
        every = range(count) if axes is None else [int(axis) % count for axis in axes]
        reduced = partial(over_axes, reduce)
        return builder.call_te(reduced, x, [*every], keepdims, primfunc_name_hint=name)

    return _legalize


EXTREMES = {"relax.max": _legalized(maximum, "max"), "relax.min": _legalized(minimum, "min")}
"""For ``relax.transform.LegalizeOps``."""
