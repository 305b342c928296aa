"""The memory that a compiled network reserves: constants, and activations as planned."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tvm_ffi
from tvm import IRModule, ir, relax, tirx

from relay_int8.graph import dataflow


def memory_of(final: IRModule) -> dict[str, int]:
    """Return "constant_bytes" and "activation_bytes" of a module whose memory is planned.

    What a batch of open size takes between kernels is counted at the largest. Outputs are counted
    if their size is known, inputs never.
    """
    constants: set[ir.GenericConst] = set()
    activation_bytes = 0
    for _, func in relax_functions(final):
        tvm_ffi.structural_walk(func.body, (ir.GenericConst, constants.add))
        activation_bytes += sum(_storage_bytes(value) for _, value in dataflow.calls(func))
    constant_bytes = sum(tensor_bytes(constant) for constant in constants)
    return {"constant_bytes": constant_bytes, "activation_bytes": activation_bytes}


def tensor_bytes(value: relax.Expr) -> int:
    """Return the size of a tensor; 0 of anything else, or where an extent is symbolic."""
    if not isinstance(value.ty, relax.TensorType):
        return 0
    return known_product(dataflow.shape(value)) * np.dtype(dataflow.dtype(value)).itemsize


def relax_functions(mod: IRModule) -> Iterator[tuple[str, relax.Function]]:
    """Yield name and function of all that is no kernel: ``main``, regions of CUDA graphs."""
    for var, func in mod.functions_items():
        if isinstance(func, relax.Function):
            yield str(var.name_hint), func


def _storage_bytes(value: relax.Expr) -> int:
    """Return the size that is planned; results of open size are allocated when they are known."""
    if dataflow.operator(value) != "vm.alloc_storage":
        return 0
    size = value.args[0]
    return known_product(size.values) if isinstance(size, relax.ShapeExpr) else 0


def known_product(extents: Sequence[Any]) -> int:
    """Return the product of extents, 0 where one is symbolic."""
    known = all(isinstance(extent, int | tirx.IntImm) for extent in extents)
    return math.prod(int(extent) for extent in extents) if known else 0
