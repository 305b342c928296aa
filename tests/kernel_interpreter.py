"""Run a module of kernel calls in NumPy: each spec by ``schedules.reference``, no kernel compiled."""

from collections.abc import Mapping

import numpy as np
import tvm

from relay_int8 import graph
from relay_int8.kernel_call import operands, spec_of
from schedules.reference import reference


def interpret(mod: tvm.IRModule, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return every tensor of ``mod`` by name; every binding must be the call of a spec."""
    func = mod["main"]
    values = {param: inputs[param.name] for param in func.params}
    for var, value in graph.calls(func):
        spec = spec_of(value)
        assert spec is not None, f"{var.name} is {graph.operator(value)}, not the call of a spec"
        tensors, params = operands(value, spec)
        arrays = {name: values[var] for name, var in zip(spec.tensors, tensors, strict=True)}
        values[var] = reference(spec, arrays, params)
    return {var.name: array for var, array in values.items()}
