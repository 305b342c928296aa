"""Decide which tensors become integers: ``annotate(mod, config) -> Plan``. Changes no number.

A convolution or matrix product with constant weights is always worth integers. Any other operator
is computed in integers where that saves a conversion: its inputs are integers already (or inputs
of the network, or given by a norm, which rounds its floats itself), and an integer operator reads
its result. So the last layer gives float directly, an operator that only moves the network's
results stays in float, and so does a sum that no integer operator reads: its convolution leaves it
alone, since a convolution with a fused sum gives integers, and takes integers to add. Layers that
bytes would spoil, such as transforms of sound to spectra, stay in float
(:mod:`relay_int8.quantization.kept_float`).
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm import IRModule, relax

from relay_int8.errors import ConfigError
from relay_int8.graph import dataflow
from relay_int8.graph.group import Group, Leaky, Smooth, adds_values
from relay_int8.graph.groups import find_groups
from relay_int8.graph.plan import Cause, LayerPlan, Plan, TensorPlan
from relay_int8.numerics.qparams import PlannedScheme
from relay_int8.operators.registry import float_refusal, operator_of, refusal
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.functions import separate_functions
from relay_int8.quantization.kept_float.rules import exact_moves, spoiled_layers
from relay_int8.quantization.signs import non_negative, one_sided


def annotate(mod: IRModule, config: QuantConfig, refused: Mapping[str, str] | None = None) -> Plan:
    """Return the plan for a normalized float module; ``mod`` is left alone.

    Parameters
    ----------
    mod
        Float module in canonical form (see ``pipeline.normalize_passes``).
    config
        Preset and exclusions.
    refused
        Layers that calibrated ranges rule out: name of the result -> why. Of a layer that ends in
        a function this is the function alone.

    Raises
    ------
    ConfigError
        If an exclusion names nothing.
    """
    if dataflow.is_quantized(mod):
        raise ConfigError(
            "the model is quantized already and keeps its own scales: relay-int8 quantize takes it "
            "as it is; there is nothing to calibrate or choose"
        )
    func = mod["main"]
    separate = _excluded_additions(func, config)
    separate |= separate_functions(find_groups(func, separate=separate), config, refused or ())
    groups = find_groups(func, separate=separate)
    _require_known(groups, config)
    spoiled = {} if config.require_int8 else spoiled_layers(groups, func)
    refused, exact = spoiled | dict(refused or {}), exact_moves(groups, func)
    reasons = _reasons(groups, config, refused, exact)
    while unread := _unread_sums(groups, reasons) | _unread_functions(groups, reasons):
        separate |= unread
        groups = find_groups(func, separate=separate)
        reasons = _reasons(groups, config, refused, exact)
    integer = [group for group in groups if reasons[group.name] is None]
    layers = tuple(
        LayerPlan(
            name=group.name,
            root=str(group.members[0].name),
            kind=group.kind,
            macs=operator_of(group).macs(group),
            reason=reasons[group.name],
            cause=_cause(group, reasons[group.name], config, refused),
        )
        for group in groups
    )
    return Plan(tensors=_tensors(integer, groups, func, config), layers=layers)


def _cause(
    group: Group, reason: str | None, config: QuantConfig, refused: Mapping[str, str]
) -> Cause:
    if reason is None:
        return ""
    if _excluded(group, config):
        return "excluded"
    unable = group.name in refused or refusal(group, config.requantize)
    return "unsupported" if unable else "unneeded"


def _require_known(groups: list[Group], config: QuantConfig) -> None:
    unknown = set(config.exclude).difference(*(_names(group) for group in groups))
    if unknown:
        raise ConfigError(
            f"exclude {', '.join(sorted(unknown))}: no layer has such a name or type; "
            "relay-int8 inspect MODEL lists both"
        )


def _names(group: Group) -> set[str]:
    """Return what a group can be excluded by."""
    return {group.kind, dataflow.operator(group.root), *(var.name for var in group.members)}


def _excluded_additions(func: relax.Function, config: QuantConfig) -> set[str]:
    additions = {
        var.name for var, value in dataflow.calls(func) if dataflow.operator(value) == "add"
    }
    return additions if "add" in config.exclude else additions.intersection(config.exclude)


def _unread_sums(groups: list[Group], reasons: Mapping[str, str | None]) -> set[str]:
    """Return the additions that integer convolutions absorb for no integer reader."""
    integer = [group for group in groups if reasons[group.name] is None]
    read = {var for group in integer for var in group.inputs}
    return {
        str(group.addition.name)
        for group in integer
        if group.addition is not None and group.output not in read
    }


def _unread_functions(groups: list[Group], reasons: Mapping[str, str | None]) -> set[str]:
    """Return the functions that integer layers absorb for no integer reader."""
    integer = [group for group in groups if reasons[group.name] is None]
    read = {var for group in integer for var in group.inputs}
    return {
        str(group.activated.name)
        for group in integer
        if isinstance(group.activation, Smooth)
        and group.activated is not None
        and group.output not in read
    }


def _excluded(group: Group, config: QuantConfig) -> bool:
    return not _names(group).isdisjoint(config.exclude)


def _reasons(
    groups: list[Group],
    config: QuantConfig,
    refused: Mapping[str, str],
    exact: Mapping[str, str],
) -> dict[str, str | None]:
    """Return, for each group, why it stays in float, or None."""
    reasons: dict[str, str | None] = {
        group.name: "excluded by the user"
        if _excluded(group, config)
        else refused.get(group.name) or refusal(group, config.requantize)
        for group in groups
    }
    producer = {group.output: group for group in groups}
    readers: dict[relax.Var, list[Group]] = {}
    for group in groups:
        for var in group.inputs:
            readers.setdefault(var, []).append(group)

    rounding = _rounding(groups, producer)

    def _not_worth(group: Group) -> str | None:
        if group.name in exact:
            return exact[group.name]
        for var in group.inputs:
            source = producer.get(var)
            if source is None and operator_of(group).prepares_input:
                return "it prepares the network's input, which is quantized after it"
            if source is not None and source.name in rounding:
                if group.name in rounding:
                    return f"its bounds are those of {var.name}, which is computed in float"
            elif source is not None and reasons[source.name] is not None:
                return f"its input {var.name} is computed in float"
        if not any(reasons[reader.name] is None for reader in readers.get(group.output, [])):
            return "no integer operator reads its result"
        return None

    changed = True
    while changed:  # a float operator may leave its neighbours without a reason to be integer
        changed = False
        for group in groups:
            operator = operator_of(group)
            pays = operator.pays_alone if config.require_int8 else operator.is_worth_alone(group)
            if pays or reasons[group.name] is not None:
                continue
            reasons[group.name] = _not_worth(group)
            changed |= reasons[group.name] is not None
    return reasons


def _rounding(groups: list[Group], producer: Mapping[relax.Var, Group]) -> set[str]:
    """Return the layers that stay in float and give integers at no cost: norms, bounds of these."""
    rounding: set[str] = set()
    for group in groups:
        sources = [producer[var].name for var in group.inputs if var in producer]
        record = operator_of(group)
        is_norm = record.rounds and float_refusal(group) is None
        if is_norm or (record.is_bound(group) and rounding.intersection(sources)):
            rounding.add(group.name)
    return rounding


def _tensors(
    integer: list[Group], groups: list[Group], func: relax.Function, config: QuantConfig
) -> dict[str, TensorPlan]:
    """Return the scheme of every tensor that an integer group reads, or has to give."""
    wanted = dict.fromkeys(var for group in integer for var in group.inputs)
    unify = config.applied.unify
    like = _shared(integer, wanted, func, unify)
    # What feeds a unified activation has its range, and reaches below zero as far as above.
    schemes: dict[relax.Var, PlannedScheme] = {}
    schemes |= dict.fromkeys(one_sided(groups, leaky=not unify), config.scheme.one_sided)
    schemes |= dict.fromkeys(non_negative(groups), config.scheme.non_negative)
    if config.scheme.non_negative == "u8" and config.scheme.signed == "s8":
        inputs = [*func.params, *(like[var] for var in func.params if var in like)]
        schemes |= dict.fromkeys(inputs, "input")
    plans = {}
    for var in wanted:
        root = like.get(var, var)
        scheme = schemes.get(root, config.scheme.signed)
        plans[var.name] = TensorPlan(scheme=scheme, like=root.name)
    return plans


def _shared(
    integer: list[Group], wanted: dict[relax.Var, None], func: relax.Function, unify: bool
) -> dict[relax.Var, relax.Var]:
    """Return, for each tensor with the parameters of another one, that other one.

    Parameters pass forward through moves, and backward from a concat, and from a pad with a value,
    to what feeds it alone, or it and concats that are parts of it; with ``unify`` backward through
    leaky activations too. (Not through ReLU: its result is unsigned, and what a chain of others
    makes of negative values would be lost.)
    """
    producer = {group.output: group for group in integer}
    readers = dataflow.consumers(func)
    like = _parts(integer, readers)
    lends = {group.output: group for group in integer if operator_of(group).lends_range(group)}
    for group in integer:
        record = operator_of(group)
        if record.keeps_range(group) and group.output in wanted:
            like[group.output] = group.inputs[0]
        if group.output in lends:
            whole = _follow(group.output, like)
            for var in group.inputs:
                source = producer.get(var)
                free = _requantizes(source) if source else _is_padded_input(group, var, func)
                if free and all(
                    reader in lends and _follow(reader, like) == whole for reader in readers[var]
                ):
                    like[var] = whole
        if unify and isinstance(group.activation, Leaky) and group.output in wanted:
            source = producer.get(group.inputs[0])
            sole = len(group.members) == len(readers[group.inputs[0]]) == 1
            if sole and source and _requantizes(source):
                like[group.inputs[0]] = group.output
    return {var: _follow(var, like) for var in like}


def _parts(
    integer: list[Group], readers: Mapping[relax.Var, list[relax.Var]]
) -> dict[relax.Var, relax.Var]:
    """Return, for each concat of a dense block, the last concat that it is a part of.

    Each is read by a layer, and joined again. One that is joined again and nothing else keeps its
    own range: it is rescaled once, as its branches may need.
    """
    lending = [group for group in integer if operator_of(group).lends_range(group)]
    return {
        group.output: whole.output
        for group in lending
        for whole in lending
        if operator_of(group).is_part(group, whole) and readers[group.output] != [whole.output]
    }


def _is_padded_input(group: Group, var: relax.Var, func: relax.Function) -> bool:
    """Whether a group pads an input of the network, which is quantized with any range."""
    return adds_values(group) and any(var.same_as(param) for param in func.params)


def _requantizes(group: Group) -> bool:
    return operator_of(group).requantizes


def _follow(var: relax.Var, like: dict[relax.Var, relax.Var]) -> relax.Var:
    while var in like:
        var = like[var]
    return var
