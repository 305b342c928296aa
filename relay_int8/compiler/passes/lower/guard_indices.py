"""Clamp computed indices to the axis that they index.

    Before:  y = gather_elements(x, i)                             x: (4, 8), axis 1
    After:   y = gather_elements(x, minimum(maximum(i, 0), 7))

Place:  before TVM's own lowering, whose kernels read at any address that they are given.
Exact:  bit-identical for valid indices. Constant ones that are valid stay as they are. Inputs that
        are indices are checked where they enter, so that what is clamped was computed.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.errors import UnsupportedOpError
from relay_int8.graph import dataflow
from relay_int8.graph.index_ranges import Indexing, indexing
from relay_int8.graph.rewriting import Scope, rewrite_main


@tvm.transform.module_pass(opt_level=0, name="GuardIndices")
class GuardIndices:
    """Clamp computed indices to the axis that they index."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with indices clamped; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _guard)


def _guard(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    use = indexing(value)
    if use is None:
        return None
    if dataflow.operator(value) == "take":  # TVM clamps these itself, or warns of the other way
        return None if value.attrs.mode != "fast" else _clipping(value)
    if use.extents.dtype == object:
        raise UnsupportedOpError(
            f"{scope.name} ({dataflow.operator(value)}) indexes along an open batch: fix the batch"
        )
    if _is_valid(value, use):
        return None
    indices = value.args[use.argument]
    kind = dataflow.dtype(indices)
    low = np.where(np.isfinite(use.extents), 0, -np.inf).astype(kind)
    bounded = scope.emit("at_least_first", relax.op.maximum(indices, relax.const(low, kind)))
    high = relax.const((use.extents - 1).astype(kind), kind)
    bounded = scope.emit("at_most_last", relax.op.minimum(bounded, high))
    args = [bounded if i == use.argument else arg for i, arg in enumerate(value.args)]
    return dataflow.with_arguments(value, args)


def _clipping(call: relax.Call) -> relax.Call:
    axis = call.attrs.axis
    return relax.op.take(*call.args, axis=None if axis is None else int(axis), mode="clip")


def _is_valid(call: relax.Call, use: Indexing) -> bool:
    """Whether indices are constant and valid."""
    array = dataflow.constant(call.args[use.argument])
    if array is None or use.extents.dtype == object:
        return False
    return bool(((array >= 0) & (array < use.extents))[..., np.isfinite(use.extents)].all())
