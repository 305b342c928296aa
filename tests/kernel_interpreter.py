"""Run a module of kernel calls in NumPy: each spec by ``schedules.reference.kernels``, no kernel compiled."""

from collections.abc import Mapping

import numpy as np
import tvm

from relay_int8.graph import dataflow
from relay_int8.graph.spec_calls import operands, spec_of
from schedules.reference.kernels import reference


def interpret(mod: tvm.IRModule, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return every tensor of ``mod`` by name; every binding must be the call of a spec."""
    func = mod["main"]
    values = {param: inputs[param.name] for param in func.params}
    for var, value in dataflow.calls(func):
        spec = spec_of(value)
        assert spec is not None, f"{var.name} is {dataflow.operator(value)}, not the call of a spec"
        tensors, params = operands(value, spec)
        arrays = {name: values[var] for name, var in zip(spec.tensors, tensors, strict=True)}
        values[var] = reference(spec, arrays, params)
    return {var.name: array for var, array in values.items()}
