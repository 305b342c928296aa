"""Scale the channels of residual streams: tensors that additions and gates hold in step.

    producers -> + -> + -> ... -> readers, all of them

Every tensor of a stream has the same channels, and one factor for each passes through all of it:
rows of the weights that write into it are multiplied, those that read it divided, as far as
rounding tensors and weights together gains by it (``numerics.equalization.least_noise_factors``).
In trained networks a few channels of a stream reach far, since every block adds to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import IRModule, relax

from relay_int8.calibration.channels import LeastNoise, ScalableChannels
from relay_int8.graph import dataflow
from relay_int8.graph.group import Group, Smooth
from relay_int8.graph.groups import find_groups
from relay_int8.graph.plan import Plan
from relay_int8.operators.channels import channels_of
from relay_int8.operators.linear import Linear
from relay_int8.operators.registry import linear_of, operator_of, refusal
from relay_int8.quantization.refine.chains import bound_of, channel_axis
from relay_int8.quantization.refine.channel_layers import ChannelLayers

WORTH = 0.75
"""Share of the noise above which factors are left out: ranges of least error clip what reaches
furthest, so that a channel which does costs less than its extremes say."""


@dataclass(frozen=True, kw_only=True)
class Stream(ChannelLayers):
    """What writes and reads the channels of a stream.

    Parameters
    ----------
    names
        Of all tensors that have its channels, in their order, with those inside a producer:
        products without bias, sums without residual.
    """

    names: tuple[str, ...]

    @property
    def tensors(self) -> dict[str, tuple[int, int]]:
        """Return all tensors; each has every channel."""
        return dict.fromkeys(self.names, (0, len(self.producers[0].weight_rows)))


def find_streams(func: relax.Function) -> dict[str, Stream]:
    """Return the streams of a normalized float function by name, in the order of their tensors.

    Tensors that no addition and no gate joins are left to
    :func:`relay_int8.quantization.refine.chains.find_chains`.
    """
    groups = find_groups(func)
    fixed = _names([*func.params, *dataflow.results(func)])
    tied: dict[str, set[str]] = {}
    readers = []
    for group in groups:
        scaled, is_reader = _names(_scaled_inputs(group)), _is_reader(group)
        read = _names(group.inputs[:1]) if is_reader else set()
        fixed |= _names(group.floats) | (_names(group.inputs) - scaled - read)
        if not scaled and not _is_producer(group):
            fixed.add(group.name)
        readers += [group] if is_reader else []
        _tie(tied, {group.name} | scaled)
    found = [
        _stream(
            [group for group in groups if group.name in names],
            [reader for reader in readers if str(reader.inputs[0].name) in names],
        )
        for names in {id(names): names for names in tied.values()}.values()
        if not names & fixed
    ]
    return {stream.name: stream for stream in found if stream is not None}


def scalable_streams(mod: IRModule, plan: Plan) -> list[ScalableChannels]:
    """Return the channels of the streams of a normalized float module that integers read."""
    wanted, integer = set(plan.calibrated), plan.integer_layers
    scalable = []
    for stream in find_streams(mod["main"]).values():
        own = set(stream.names)
        lent = any((name in own) != (each.like in own) for name, each in plan.tensors.items())
        readers = [one for one in stream.readers if _names([*one.members, one.output]) & integer]
        deciding = tuple(name for name in stream.names if name in wanted)
        if deciding and readers and not lent:
            choice = LeastNoise(
                reads=tuple(_weights(one) for one in readers if not one.is_depthwise),
                free_reads=tuple(_weights(one)[:, 0] for one in readers if one.is_depthwise),
                worth=WORTH,
            )
            scalable.append(stream.scalable(wanted, choice, deciding))
    return scalable


def _stream(own: Sequence[Group], readers: Sequence[Group]) -> Stream | None:
    """Return the stream of what gives tensors that are tied and reads them, None if it is none."""
    producers = [group for group in own if isinstance(operator_of(group), Linear)]
    is_joined = any(len(group.inputs) > 1 for group in own)
    if not (producers and readers and is_joined):
        return None
    inside = [str(var.name) for group in own for var in (*group.members, group.output)]
    return Stream(
        name=producers[0].name,
        names=tuple(dict.fromkeys(inside)),
        producers=tuple(producers),
        readers=tuple(readers),
    )


def _scaled_inputs(group: Group) -> list[relax.Var]:
    """Return the inputs whose factors a group's result has, none where it cannot have any."""
    if _is_producer(group):
        return group.inputs[1:]
    if isinstance(operator_of(group), Linear) or not _is_homogeneous(group):
        return []
    return list(operator_of(group).scaled_inputs(group))


def _is_producer(group: Group) -> bool:
    """Say whether a layer gives scaled channels where its weights, bias and residual are scaled."""
    if not _has_channels(group) or not _is_homogeneous(group):
        return False
    given = [dataflow.shape(var) for var in (*group.inputs[1:], group.output)]
    return len(given) == 1 + group.residual and len(set(map(channels_of, given))) == 1


def _is_reader(group: Group) -> bool:
    """Say whether a layer's weights can take back a factor of each channel of its first input."""
    return _has_channels(group) and (linear_of(group).groups(group) == 1 or group.is_depthwise)


def _has_channels(group: Group) -> bool:
    """Say whether a layer of constant weights has its channels on axis 1."""
    if not isinstance(operator_of(group), Linear) or group.weight is None or refusal(group):
        return False
    return channel_axis(group) == 1


def _is_homogeneous(group: Group) -> bool:
    """Say whether positive factors pass a group's activation."""
    return not isinstance(group.activation, Smooth) and bound_of(group.activation) == np.inf


def _weights(reader: Group) -> np.ndarray:
    """Return float64 (channels, outputs, taps), outputs being 1 behind a depthwise reader."""
    outputs = 1 if reader.is_depthwise else len(reader.weight_rows)
    assert reader.weight is not None
    w = linear_of(reader).by_input(reader, reader.weight.values)
    return w.reshape(len(w), outputs, -1).astype(np.float64)


def _tie(tied: dict[str, set[str]], names: set[str]) -> None:
    """Join the sets that some tensors are in."""
    together = names.union(*(tied.get(name, set()) for name in names))
    tied.update(dict.fromkeys(together, together))


def _names(tensors: Iterable[relax.Var]) -> set[str]:
    return {str(var.name) for var in tensors}
