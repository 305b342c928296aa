"""Layers that read squares stay in float where a step of a byte would be more than their mean.

    square -> convolution or dense layer

A tensor whose largest values are many times the usual ones still has some steps for these. Its
square has none: values below a sixteenth of the largest are squared to less than a step. R2D2, a
keypoint detector, reads confidences from squares of descriptors.
"""

from __future__ import annotations

from collections.abc import Sequence

from relay_int8.calibration.table import CalibrationTable
from relay_int8.graph.group import Group
from relay_int8.graph.layers import means_of
from relay_int8.graph.plan import Plan
from relay_int8.quantization.kept_float.linear_groups import is_square


def square_reasons(groups: Sequence[Group], plan: Plan, table: CalibrationTable) -> dict[str, str]:
    """Return the layers that read such squares, by name, and why they stay in float.

    Parameters
    ----------
    groups
        Of the network, in their order.
    plan
        Says which are integer.
    table
        Ranges and means of what they read; where it has no means, no layer is returned.
    """
    integer = plan.integer_layers
    squares = {group.output for group in groups if is_square(group)}
    reasons = {}
    for group in groups:
        if not group.is_layer or group.name not in integer or group.inputs[0] not in squares:
            continue
        means = table.means.get(means_of(group))
        tensor = plan.tensors.get(str(group.inputs[0].name))
        if means is None or tensor is None:
            continue
        step, mean = float(table.entries[tensor.like].qparams().scale), float(means.mean())
        if mean < step:
            reasons[group.name] = (
                f"it reads squares, and one step of 8 bits, {step:.2g}, is more than their mean, "
                f"{mean:.2g}: bytes would lose the squares of small values"
            )
    return reasons
