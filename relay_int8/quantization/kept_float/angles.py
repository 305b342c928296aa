"""Layers that compute the arguments of sines and cosines stay in float where these turn far.

    layer -> (move | a * x + b) -> sin(x), cos(x)

Fourier features of positions (Tancik et al. 2020) are such: the prompts of Segment Anything, and
radiance fields. An angle counts by itself, not beside the largest angle there is: over ten turns
the steps of an input and of weights are a quarter of a turn. Whether the sine itself is in integers
or not does not matter; if it is, :mod:`.steep` asks about the rounding of its argument too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tvm import relax

from relay_int8.calibration.table import CalibrationTable
from relay_int8.graph import dataflow
from relay_int8.graph.group import AFFINE, MOVES, Group
from relay_int8.graph.plan import Plan
from relay_int8.quantization.kept_float.layer_noise import layer_noise
from relay_int8.quantization.kept_float.linear_groups import SAMPLES, samples

PERIODIC = ("sin", "cos")
MOST = 0.05
"""Deviation of an angle in radians: sines have 26 dB behind it, and 49 if rounded themselves."""


def angle_reasons(groups: Sequence[Group], plan: Plan, table: CalibrationTable) -> dict[str, str]:
    """Return the layers that would turn angles too far, by name, and why.

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
    turned: dict[relax.Var, float] = {}  # by what a tensor is multiplied before it is an angle
    refused = {}
    for group in reversed(groups):
        factor = turned.get(group.output, 0.0)
        if factor and group.is_layer and group.weight is not None:
            if group.name in integer and group.activation is None:
                noise = factor * layer_noise(group, plan, table)
                if noise > MOST:
                    refused[group.name] = _reason(noise)
            continue
        factor = max(_turning(group), factor * _slope(group))
        if factor:
            for var in group.inputs:
                turned[var] = max(turned.get(var, 0.0), factor)
    return refused


def _turning(group: Group) -> float:
    """Return by what a group multiplies its input before it takes a sine; 0 if it takes none."""
    if group.function is None:
        return float(group.kind in PERIODIC)
    members = group.function.members
    angles = [call.args[0] for _, call in members if dataflow.operator(call) in PERIODIC]
    if any(angle.same_as(group.function.source) for angle in angles):
        return 1.0
    ends = [i + 1 for i, (var, _) in enumerate(members) if any(map(var.same_as, angles))]
    parts = (replace(group.function, members=members[:end]) for end in ends)
    return max((_linear_slope(part(SAMPLES)) for part in parts), default=0.0)


def _slope(group: Group) -> float:
    """Return by what a group multiplies errors of its input, at most; 0 if it is not linear."""
    if group.kind in MOVES:
        return 1.0
    if group.kind == AFFINE and group.affine is not None and group.activation is None:
        return float(np.abs(group.affine.scale).max())
    values = samples(group)
    return 0.0 if values is None else _linear_slope(values)


def _linear_slope(values: np.ndarray) -> float:
    slopes = np.diff(values) / np.diff(SAMPLES)
    return float(abs(slopes[0])) if np.allclose(slopes, slopes[0], rtol=1e-6) else 0.0


def _reason(noise: float) -> str:
    return (
        f"rounding to 8 bits would turn the angles of sines and cosines by {noise:.2g} radians, as "
        f"its input's range is that large for its weights; the most is {MOST}"
    )
