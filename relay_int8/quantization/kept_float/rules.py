"""All rules, by what they need: the graph alone, or ranges too."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from relay_int8.calibration.table import CalibrationTable
from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.graph.plan import Plan
from relay_int8.quantization.kept_float.angles import angle_reasons
from relay_int8.quantization.kept_float.coordinates import coordinate_reasons
from relay_int8.quantization.kept_float.filters import filter_reasons
from relay_int8.quantization.kept_float.gates import gate_reasons
from relay_int8.quantization.kept_float.logarithms import logarithm_reasons
from relay_int8.quantization.kept_float.magnitudes import magnitude_reasons
from relay_int8.quantization.kept_float.maxima import maximum_reasons
from relay_int8.quantization.kept_float.parts import part_reasons
from relay_int8.quantization.kept_float.spectra import spectrum_reasons
from relay_int8.quantization.kept_float.squares import square_reasons
from relay_int8.quantization.kept_float.states import state_reasons
from relay_int8.quantization.kept_float.steep import steepness_reasons
from relay_int8.quantization.kept_float.variances import variance_reasons

Reasons = dict[str, str]
"""Name of a group -> why it stays in float."""


def spoiled_layers(groups: Sequence[Group], func: relax.Function) -> Reasons:
    """Return the layers that 8 bits would spoil, by the graph; unused if integers are required."""
    results = set(dataflow.results(func))
    return (
        coordinate_reasons(groups)
        | logarithm_reasons(groups, results)
        | magnitude_reasons(groups, results)
        | spectrum_reasons(groups, set(func.params), results)
        | variance_reasons(groups)
    )


def exact_moves(groups: Sequence[Group], func: relax.Function) -> Reasons:
    """Return the moves and poolings, which have no products, that gain nothing from 8 bits."""
    states = state_reasons(groups, set(func.params), set(dataflow.results(func)))
    return maximum_reasons(groups) | states | part_reasons(groups, func.params)


def magnified_layers(groups: Sequence[Group], plan: Plan, table: CalibrationTable) -> Reasons:
    """Return the layers that 8 bits would spoil, by ranges; unused if integers are required."""
    return (
        angle_reasons(groups, plan, table)
        | gate_reasons(groups, plan, table)
        | steepness_reasons(groups, plan, table)
        | filter_reasons(groups, plan, table)
        | square_reasons(groups, plan, table)
    )
