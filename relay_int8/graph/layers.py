"""The layers of a float network that a plan computes in integers."""

from __future__ import annotations

from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import DENSE, Group
from relay_int8.graph.groups import find_groups
from relay_int8.graph.plan import Plan
from relay_int8.numerics.channel_means import LAST_AXIS


def linear_layers(func: relax.Function, plan: Plan) -> list[Group]:
    """Return the convolutions and dense layers that ``plan`` computes in integers."""
    integer = plan.integer_layers
    groups = find_groups(func, plan.additions)
    return [group for group in groups if group.name in integer and group.weight is not None]


def averaged_tensors(func: relax.Function, plan: Plan) -> list[str]:
    """Return the names of the channel means that the correction of ``func`` reads.

    They are those of tensors, see :func:`relay_int8.numerics.channel_means.averaged`.
    """
    return list(dict.fromkeys(map(means_of, linear_layers(func, plan))))


def means_of(layer: Group) -> str:
    """Return the name of the means along the axis that ``layer`` reduces."""
    x = layer.inputs[0]
    last = layer.kind == DENSE and len(dataflow.shape(x)) == 4
    return f"{x.name}{LAST_AXIS}" if last else str(x.name)
