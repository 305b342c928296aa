"""Compile kernels as the compiler does: by its passes, without checks of arguments.

The checks are made here instead, so that a kernel whose arguments have other shapes or types than its
template's layouts say is still found. Float graphs are compiled with TVM's own kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import IRModule, relax, tirx
from tvm.target import Target

from relay_int8.compiler.lower_kernels import llvm_module, plain_loops

NO_CHECKS = {"tirx.disable_assert": True}
"""TVM's option by which what ``tvm.compile`` makes does not check its arguments either."""
UNOPTIMIZED = Target({"kind": "llvm", "opt-level": 0})


@dataclass(frozen=True)
class CompiledKernels:
    """The kernels of a module, by name."""

    mod: IRModule
    executable: Any

    def __getitem__(self, name: str) -> Any:
        def run(*arguments: tvm.runtime.Tensor) -> None:
            assert_fits(self.mod[name], arguments)
            self.executable[name](*arguments)

        return run


def compiled(mod: IRModule, target: Target) -> CompiledKernels:
    """Compile scheduled kernels for ``target``."""
    return CompiledKernels(mod, llvm_module(plain_loops(mod, target), target, checks=False))


def assert_fits(func: tirx.PrimFunc, arguments: tuple[tvm.runtime.Tensor, ...]) -> None:
    """Check types and shapes; a symbolic extent is the same everywhere."""
    extents: dict[tvm.ir.Var, int] = {}
    for param, argument in zip(func.params, arguments, strict=True):
        assert str(argument.dtype) == str(param.ty.dtype), f"{param.name} is {argument.dtype}"
        wanted = [
            extents.setdefault(extent, size) if isinstance(extent, tvm.ir.Var) else int(extent)
            for extent, size in zip(param.ty.shape, argument.shape, strict=True)
        ]
        assert list(argument.shape) == wanted, f"{param.name} is {argument.shape}, not {wanted}"


def run_with_kernels_of_tvm(mod: IRModule, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compile a float graph with TVM's own kernels, unoptimized and without checks, and run it.

    These are the passes of TVM's pipeline "zero" without FoldConstant, which compiles, links and runs
    a program for each operator on constants: half of the time of a network of many constants.
    """
    passes = [
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
    ]
    with tvm.transform.PassContext(config=NO_CHECKS):
        built = relax.build(tvm.transform.Sequential(passes)(mod), UNOPTIMIZED)
    return run_executable(built, arrays)


def run_executable(built: relax.VMExecutable, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run what was compiled for a CPU."""
    result = relax.VirtualMachine(built, tvm.cpu())["main"](*map(tvm.runtime.tensor, arrays))
    tensors = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [tensor.numpy() for tensor in tensors]
