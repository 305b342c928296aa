"""Checks of a plan: layers whose ranges allow no integers, and integers that are required."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tvm import IRModule

from relay_int8.errors import CoverageError
from relay_int8.graph.group import Group
from relay_int8.graph.groups import find_groups
from relay_int8.graph.layers import linear_layers
from relay_int8.graph.plan import Plan
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.registry import operator_of
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig


def out_of_range(reference: IRModule, plan: Plan, params: Mapping[str, QParams]) -> dict[str, str]:
    """Return the layers that have no integers with these ranges, and why."""
    main = reference["main"]
    integer = plan.integer_layers
    refused = {
        group.name: reason
        for group in find_groups(main, separate=plan.additions)
        if group.name in integer and group.inputs and not group.weight
        for reason in [_range_refusal(group, plan, params)]
        if reason
    }
    for group in linear_layers(main, plan):
        x = params[plan.tensors[group.inputs[0].name].like]
        rows, bias = group.weight_rows, group.bias_or_zero
        scales = qparams.weight_scales(rows, bias, x.scale)
        reason = qparams.accumulator_refusal(
            qparams.quantize_weight(rows, scales), qparams.quantize_bias(bias, x.scale, scales), x
        )
        if reason:
            refused[group.name] = reason
    return refused


def _range_refusal(group: Group, plan: Plan, params: Mapping[str, QParams]) -> str | None:
    x = params[plan.tensors[group.inputs[0].name].like]
    return operator_of(group).range_refusal(group, x)


def plan_without(
    refused: Mapping[str, str], plan: Plan, reference: IRModule, config: QuantConfig
) -> Plan:
    """Return a plan in which layers are float; the tensors that are left keep their ranges."""
    fewer = annotate(reference, config, refused)
    return replace(fewer, tensors={name: plan.tensors[name] for name in fewer.tensors})


def require_integers(plan: Plan, config: QuantConfig) -> None:
    """Raise a CoverageError if a layer that ``config`` requires in integers has no such form."""
    floats = [
        f"{layer.name} ({layer.kind}): {layer.reason}"
        for layer in plan.layers
        if layer.cause == "unsupported" and (layer.macs or config.require_int8 != "products")
    ]
    if config.require_int8 and floats:
        raise CoverageError(
            "int8 was required, but these layers stay in float: "
            + "; ".join(floats)
            + "; exclude them, or do not require int8"
        )
