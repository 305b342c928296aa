"""Functions that would multiply the rounding of their argument are computed in float.

    layer -> sin(30 x) -> layer

A byte over ten periods of a sine has some 25 values for each. The layer in front of such a function
gives its sums in float32 then, and what the function makes of them is rounded alone. The layer
itself stays in float if the rounding of what it reads and of its weights is multiplied as much:
coordinates, of which a step is a tenth of a period.
"""

from __future__ import annotations

from collections.abc import Sequence

from relay_int8.calibration.table import CalibrationTable
from relay_int8.graph.group import DENSE, Group
from relay_int8.graph.plan import Plan
from relay_int8.numerics.steepness import steepness
from relay_int8.operators.registry import operator_of
from relay_int8.quantization.kept_float.layer_noise import layer_noise
from relay_int8.quantization.kept_float.wording import magnified

MOST = 16.0
"""Times the squared error of rounding the result: 12 dB more than a byte has by itself."""


def steepness_reasons(
    groups: Sequence[Group], plan: Plan, table: CalibrationTable
) -> dict[str, str]:
    """Return the functions of bytes that are too steep, and layers before them, and why.

    Parameters
    ----------
    groups
        Of the network, in their order.
    plan
        Says which are integer.
    table
        Ranges of what they read and give.
    """
    integer = plan.integer_layers
    layers = {group.output: group for group in groups if group.kind == DENSE}
    refused = {}
    for group in groups:
        function = operator_of(group).function(group)
        if function is None or group.name not in integer or group.name not in plan.tensors:
            continue
        x, y = (
            table.entries[plan.tensors[str(var.name)].like].qparams()
            for var in (group.inputs[0], group.output)
        )
        multiplied = steepness(function, x, y)
        if not multiplied > MOST:  # nan: not finite somewhere, which ranges refuse anyway
            continue
        refused[group.name] = magnified("its argument", "the function's values", multiplied, MOST)
        layer = layers.get(group.inputs[0])
        if layer is None or layer.name not in integer:
            continue
        steps = layer_noise(layer, plan, table) / float(x.scale)
        if 12 * steps**2 * multiplied > MOST:
            times = 12 * steps**2 * multiplied
            reason = magnified("its input and weights", "the function's values", times, MOST)
            refused[layer.name] = f"{group.name} reads it, and {reason}"
    return refused
