"""Run a lowered network kernel by kernel on the emulated GPU; look at every tensor."""

import json
from collections.abc import Mapping

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.target import Target

from relay_int8.compiler.pipeline import lower
from relay_int8.graph import dataflow
from relay_int8.graph.attributes import LAYOUTS as LAYOUT_NAMES
from relay_int8.graph.attributes import SPEC
from schedules.layout import LAYOUTS
from schedules.spec import from_json
from tests.cuda.emulator import Emulator, cuda_source

Arrays = dict[str, np.ndarray]


def lowered(mod: tvm.IRModule, target: Target, *, float16: bool = False) -> tvm.IRModule:
    """Return a QDQ module with scheduled kernels."""
    with target:
        return lower(target, float16=float16)(mod)


def kernel_source(mod: tvm.IRModule, target: Target) -> str:
    """Return the CUDA C of all kernels of a lowered module."""
    kernels = {
        var.name_hint: func.with_attr("global_symbol", var.name_hint)
        for var, func in mod.functions_items()
        if isinstance(func, tirx.PrimFunc)
    }
    return cuda_source(tvm.IRModule(kernels), target)


class EmulatedNetwork:
    """A QDQ module lowered for a GPU, its kernels compiled for the CPU."""

    def __init__(
        self, mod: tvm.IRModule, target: Target, *, optimize: bool = False, float16: bool = False
    ) -> None:
        self.mod = lowered(mod, target, float16=float16)
        self.source = kernel_source(self.mod, target)
        self._emulator = Emulator(self.source, optimize=optimize)

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Return the results of all kernels by tensor name, and the outputs as "outputs:<i>"."""
        main = self.mod["main"]
        values = {param: np.asarray(inputs[param.name]) for param in main.params}
        found: Arrays = {}
        for var, value in dataflow.calls(main):
            arguments = [self._value(values, argument) for argument in dataflow.arguments(value)]
            if dataflow.operator(value) == "reshape":
                values[var] = arguments[0].reshape(dataflow.shape(var))
                continue
            assert dataflow.operator(value) == "call_tir", (
                f"{var.name} is {dataflow.operator(value)}"
            )
            func = self.mod[value.args[0]]
            y = np.full(dataflow.shape(var), 77).astype(dataflow.dtype(var))
            name = f"{value.args[0].name_hint}_kernel"
            *_, values[var] = self._emulator.launch(name, func, [*arguments[1:], y])
            if SPEC in func.attrs:
                layout = LAYOUTS[json.loads(str(func.attrs[LAYOUT_NAMES]))[-1]]
                dims = from_json(str(func.attrs[SPEC])).shape("y")
                found[var.name] = layout.unpack(values[var], dims)
        outputs = [values[var] for var in dataflow.results(main)]
        return found | {f"outputs:{i}": output for i, output in enumerate(outputs)}

    @staticmethod
    def _value(values: dict[relax.Var, np.ndarray], argument: relax.Expr) -> np.ndarray | None:
        constant = dataflow.constant(argument)
        return values.get(argument) if constant is None else constant
