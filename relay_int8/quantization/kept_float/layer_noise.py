"""The noise that rounding input and weights adds to a layer's sums, by ranges and weights alone."""

from __future__ import annotations

from relay_int8.calibration.table import CalibrationTable
from relay_int8.graph.group import Group
from relay_int8.graph.plan import Plan
from relay_int8.numerics import qparams
from relay_int8.numerics.gate_noise import gate_noise


def layer_noise(layer: Group, plan: Plan, table: CalibrationTable) -> float:
    """Return the standard deviation of the noise of a layer's sums, in real units."""
    entry = table.entries[plan.tensors[str(layer.inputs[0].name)].like]
    s_x = entry.qparams().scale
    s_w = qparams.weight_scales(layer.weight_rows, layer.bias_or_zero, s_x)
    seen = entry.observed
    ends = (entry.low, entry.high) if seen.empty else (seen.low, seen.high)
    largest = max(abs(float(end)) for end in ends)
    rows = layer.weight_rows.reshape(len(layer.weight_rows), -1)  # of a convolution: all its taps
    return gate_noise(rows, s_w, float(s_x), largest)
