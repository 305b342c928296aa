"""Depthwise layers that would magnify the rounding of what they read stay in float.

    layer or function (ReLU, swish, hard-swish) -> depthwise layer

A depthwise layer's input has one scale, but its channels may have very different ranges. Trained
weights make up for that: they are large where a channel is small, and enlarge the channel's
rounding with it. Where nothing but depthwise layers reads the tensor, its channels are scaled
instead (``refine/depthwise.py``), or with a whole residual stream (``refine/streams.py``). What
an addition of functions reads too keeps its scale.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relay_int8.calibration.table import CalibrationTable
from relay_int8.graph.group import Clip, Group, Smooth, readers_of
from relay_int8.graph.plan import Plan
from relay_int8.operators.registry import operator_of
from relay_int8.quantization.kept_float.wording import magnified

MOST = 64.0
"""Times the squared error of rounding the result: 18 dB more than a byte has by itself."""


def filter_reasons(groups: Sequence[Group], plan: Plan, table: CalibrationTable) -> dict[str, str]:
    """Return the depthwise layers that magnify rounding, and what they read, and why.

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
    readers = readers_of(groups)
    producers = {
        group.output: group
        for group in groups
        if operator_of(group).function(group)
        or (group.is_layer and _keeps_scale(group, readers.get(group.output, [])))
    }
    refused = {}
    for group in groups:
        if not group.is_depthwise or group.name not in integer:
            continue
        producer = producers.get(group.inputs[0])
        if producer is None or group.name not in plan.tensors:
            continue
        times = _magnified(group, plan, table) * _rounded_share(producer)
        if times > MOST:
            refused[group.name] = magnified("its input", "its result", times, MOST)
            if producer.name in integer:
                refused[producer.name] = f"{group.name} reads it, and {refused[group.name]}"
    return refused


def _keeps_scale(layer: Group, readers: Sequence[Group]) -> bool:
    """Whether others than depthwise layers read it, or its factors are the small ones of functions.

    Where channels have the factors of other tensors, first layers would be meant, which are large
    (decision 63).
    """
    is_function = isinstance(layer.activation, Smooth) and not layer.ends_in_sum
    return is_function or not all(reader.is_depthwise for reader in readers)


def _rounded_share(producer: Group) -> float:
    """Return the share of values that rounding changes: half of those behind a ReLU are zero."""
    return 0.5 if isinstance(producer.activation, Clip) else 1.0


def _magnified(group: Group, plan: Plan, table: CalibrationTable) -> float:
    """Return the mean over channels, in squared steps of the result."""
    s_x, s_y = (
        float(table.entries[plan.tensors[name].like].qparams().scale)
        for name in (str(group.inputs[0].name), group.name)
    )
    squares = np.square(group.weight_rows, dtype=np.float64).sum(axis=(1, 2, 3))
    squares *= np.square(group.steepness)
    return float(squares.mean() * (s_x / s_y) ** 2)
