"""The layers of a float network that a plan computes in integers."""

from __future__ import annotations

from tvm import relax

from relay_int8.graph.groups import Group, find_groups
from relay_int8.graph.plan import Plan


def linear_layers(func: relax.Function, plan: Plan) -> list[Group]:
    """Return the convolutions and dense layers that ``plan`` computes in integers."""
    integer = {layer.name for layer in plan.layers if layer.integer}
    groups = find_groups(func, plan.additions)
    return [group for group in groups if group.name in integer and group.weight is not None]


def averaged_tensors(func: relax.Function, plan: Plan) -> list[str]:
    """Return the tensors whose channel means the correction of ``func`` reads."""
    return list(dict.fromkeys(str(layer.inputs[0].name) for layer in linear_layers(func, plan)))
