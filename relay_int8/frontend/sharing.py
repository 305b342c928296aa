"""Compute once what a network computes several times.

    Before:  a = silu(t);  y = f(a);  b = silu(t);  z = g(b)
    After:   a = silu(t);  y = f(a);  z = g(a)

A program of PyTorch has an operator for each line of Python that ran: the mask of each layer, the
embedding of a time for each block. Exporters to ONNX share these too.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import tvm_ffi
from tvm import IRModule, relax

from relay_int8.graph.dataflow import constant, dtype, operator
from relay_int8.graph.rewriting import Scope, rewrite_main

MOST_ELEMENTS = 4096  # of a constant that is compared by its numbers, not by its identity
KEPT = ("dequantize", "matmul", "quantize")
"""Operators of which each reader has its own: layers of a quantized network and attention are
recognized by products and scales that nothing else reads."""


def share_equal(mod: IRModule) -> IRModule:
    """Return ``mod`` with each value computed once; ``mod`` itself is left alone."""
    first: dict[Hashable, relax.Var] = {}

    def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
        if not isinstance(value, relax.Call) or operator(value) in KEPT:
            return None
        key = (operator(value), _attributes(value), *map(_key, value.args))
        if key not in first:
            first[key] = scope.bind(scope.name, value)
        return first[key]

    return rewrite_main(mod.clone(), _rewrite)


def _attributes(call: relax.Call) -> Hashable:
    """Return what tells the attributes of a call from others."""
    if call.attrs is None:
        return None
    key: Hashable = tvm_ffi.StructuralKey(call.attrs)  # type: ignore[call-arg]
    return key


def _key(argument: Any) -> Hashable:
    """Return what tells an argument from others."""
    kept: Hashable = argument
    if isinstance(argument, relax.Var):
        return kept
    if isinstance(argument, relax.Tuple):
        return tuple(map(_key, argument.fields))
    array = constant(argument)
    if array is None:
        return str(argument)
    if array.size > MOST_ELEMENTS:
        return kept
    return dtype(argument), array.shape, array.tobytes()
