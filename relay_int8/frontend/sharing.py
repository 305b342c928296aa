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
        attrs = None if value.attrs is None else tvm_ffi.StructuralKey(value.attrs)
        key = (operator(value), attrs, *map(_key, value.args))
        if key not in first:
            first[key] = scope.bind(scope.name, value)
        return first[key]

    return rewrite_main(mod.clone(), _rewrite)


def _key(argument: relax.Expr) -> Hashable:
    """Return what tells an argument from others."""
    if isinstance(argument, relax.Var):
        return argument
    if isinstance(argument, relax.Tuple):
        return tuple(map(_key, argument.fields))
    array: Any = constant(argument)
    if array is None:
        return str(argument)
    if array.size > MOST_ELEMENTS:
        return argument
    return dtype(argument), array.shape, array.tobytes()
