"""Dense layers whose rounding would swing the gates of a recurrent layer stay in float.

    x -> dense -> recurrent layer

Gates open and close within some four units (:mod:`relay_int8.numerics.gate_noise`). Inputs that
span many decades, such as powers of mel bands, need large weights for what is quiet: one step of
such an input, or of such weights where the input is loud, is more than that.
"""

from __future__ import annotations

from collections.abc import Sequence

from relay_int8.calibration.table import CalibrationTable
from relay_int8.graph.group import DENSE, RECURRENCE, Group
from relay_int8.graph.plan import Plan
from relay_int8.quantization.kept_float.layer_noise import layer_noise

MOST = 0.25
"""Deviation of a gate's argument: a sixteenth of the way from closed to open."""


def gate_reasons(groups: Sequence[Group], plan: Plan, table: CalibrationTable) -> dict[str, str]:
    """Return the layers that would move gates too far, by name, and why.

    Parameters
    ----------
    groups
        Of the network, in their order.
    plan
        Says which layers are integer.
    table
        Ranges of their inputs.
    """
    integer = plan.integer_layers
    gated = {group.floats[0] for group in groups if group.kind == RECURRENCE}
    refused = {}
    for group in groups:
        if group.kind != DENSE or group.name not in integer or group.output not in gated:
            continue
        noise = layer_noise(group, plan, table)
        if noise > MOST:
            refused[group.name] = (
                f"rounding to 8 bits would move the arguments of gates by {noise:.2g}, as its "
                f"input's range is that large for its weights; the most is {MOST}"
            )
    return refused
