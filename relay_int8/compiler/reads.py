"""The loads and the variables that occur in the code of kernels."""

from __future__ import annotations

import tvm
import tvm_ffi


def loads(code: object) -> list[tvm.ir.TensorLoad]:
    """Return the elements of tensors that a statement or an expression reads."""
    found: list[tvm.ir.TensorLoad] = []
    tvm_ffi.structural_walk(code, (tvm.ir.TensorLoad, found.append))
    return found


def variables(code: object) -> list[tvm.ir.Var]:
    """Return the variables that a statement or an expression reads, as often as it does."""
    found: list[tvm.ir.Var] = []
    tvm_ffi.structural_walk(code, (tvm.ir.Var, found.append))
    return found
