"""Tensors whose only reader is an element-wise function: its values decide their range."""

from __future__ import annotations

from tvm import relax

from relay_int8.calibration.methods.base import Function
from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.graph.groups import find_groups
from relay_int8.graph.plan import Plan
from relay_int8.operators.registry import operator_of


def read_functions(func: relax.Function, plan: Plan) -> dict[str, Function]:
    """Return name -> the integer function that alone reads the tensor and its parameters."""
    readers: dict[str, list[Group]] = {}
    for group in find_groups(func, separate_adds=plan.additions):
        for var in (*group.inputs, *group.floats):
            readers.setdefault(str(var.name), []).append(group)
    results = {str(var.name) for var in dataflow.results(func)}
    integer = {layer.name for layer in plan.layers if layer.integer}
    shared = {tensor.like for name, tensor in plan.tensors.items() if tensor.like != name}
    functions = {}
    for name in plan.calibrated:
        reader = readers.get(name, [])
        if len(reader) != 1 or name in shared or name in results or reader[0].name not in integer:
            continue
        function = operator_of(reader[0]).function(reader[0])
        if function is not None:
            functions[name] = function
    return functions
