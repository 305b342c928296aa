"""Networks of float operators, as TVM fuses them into kernels."""

from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relax
from tvm.target import Target

GENERIC = Target({"kind": "llvm", "mcpu": "x86-64"})
Size = int | tvm.tirx.Var


def network(
    function: Callable[..., relax.Expr], *shapes: Sequence[Size], dtype: str = "float32"
) -> tvm.IRModule:
    """Return a function of one input or several; it may be a tree of operators."""
    inputs = [
        relax.Var(f"x{i}", relax.TensorType(list(shape), dtype)) for i, shape in enumerate(shapes)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", inputs):
        with builder.dataflow():
            y = builder.emit_output(builder.normalize(function(*inputs)))
        builder.emit_func_output(y)
    mod: tvm.IRModule = builder.get()
    return mod


def island(
    function: Callable[..., relax.Expr], *shapes: Sequence[Size], dtype: str = "float32"
) -> tvm.IRModule:
    """Return such a network with its operators in kernels of loops."""
    passes = [
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
    ]
    mod: tvm.IRModule = tvm.transform.Sequential(passes)(network(function, *shapes, dtype=dtype))
    return mod


def run(mod: tvm.IRModule, *inputs: np.ndarray) -> np.ndarray:
    """Return what a network of kernels computes."""
    machine = relax.VirtualMachine(tvm.compile(mod, target=GENERIC), tvm.cpu())
    y: np.ndarray = machine["main"](*map(tvm.runtime.tensor, inputs)).numpy()
    return y
