"""Functions of real numbers: which stay apart from the layer before them, and what they read.

A function in the epilogue of a layer is computed from its sums; one of its own from bytes, whose
range is chosen by what the function makes of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from tvm import relax

from relay_int8.calibration.methods.base import Function
from relay_int8.graph import dataflow
from relay_int8.graph.group import Group, Smooth
from relay_int8.graph.groups import find_groups
from relay_int8.graph.plan import Plan
from relay_int8.operators.registry import operator_of
from relay_int8.quantization.config import QuantConfig

FEWEST_PRODUCTS = 256
"""Of an output. A function takes some twelve vector operations, a table four and a pass over
memory: with 256 products, 32 instructions of VNNI, a layer of bytes in cache takes 6 % longer."""
FEWEST_OUTPUTS = 4096
"""Of an image; what has fewer saves more by calling a kernel less."""


def separate_functions(
    groups: Collection[Group], config: QuantConfig, refused: Collection[str] = ()
) -> set[str]:
    """Return the functions and slopes that layers of a float network are not to absorb, by name.

    Those that ranges have ``refused`` are among them. Networks of attention have most of their
    functions behind wide layers, so that with functions "quick" the others cost little too: they
    are absorbed everywhere. Fixed-point arithmetic has no slope of a sum with a residual.
    """
    exact = config.applied.functions == "exact" or any(g.kind == "attention" for g in groups)
    functions = {
        str(group.activated.name)
        for group in groups
        if isinstance(group.activation, Smooth)
        and group.activated is not None
        and (
            not {group.name, group.activated.name}.isdisjoint(refused)
            or _is_barred(group.activation, config)
            or not (exact or _costs_little(group))
        )
    }
    of_sums = {group.name for group in groups if group.sum_first}
    return functions if config.requantize == "float" else functions | of_sums


def _is_barred(activation: Smooth, config: QuantConfig) -> bool:
    return config.requantize != "float" or activation.kind in config.exclude


def _costs_little(layer: Group) -> bool:
    """Return whether the function takes the layer's kernel little more than a table would."""
    outputs = math.prod(dataflow.shape(layer.output)[1:])
    products = layer.weight_rows[0].size
    return outputs < FEWEST_OUTPUTS or products >= FEWEST_PRODUCTS


def read_functions(func: relax.Function, plan: Plan) -> dict[str, Function]:
    """Return name -> the integer function that alone reads the tensor and its parameters."""
    readers: dict[str, list[Group]] = {}
    for group in find_groups(func, separate=plan.additions):
        for var in (*group.inputs, *group.floats):
            readers.setdefault(str(var.name), []).append(group)
    results = {str(var.name) for var in dataflow.results(func)}
    integer = plan.integer_layers
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
