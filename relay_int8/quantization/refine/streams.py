"""Scale the channels of residual streams: tensors that additions and gates hold in step.

    producers -> + -> + -> ... -> readers, all of them

Every tensor of a stream has the same channels, and one factor for each passes through all of it:
rows of the weights that write into it are multiplied, those that read it divided, as far as
rounding tensors and weights together gains by it (``numerics.equalization.least_noise_factors``).
In trained networks a few channels of a stream reach far, since every block adds to them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import IRModule, relax

from relay_int8.calibration.channels import ScalableChannels
from relay_int8.graph import dataflow
from relay_int8.graph.group import Group, Smooth
from relay_int8.graph.groups import find_groups
from relay_int8.graph.plan import Plan
from relay_int8.operators.channels import channels_of
from relay_int8.operators.linear import Linear
from relay_int8.operators.registry import linear_of, operator_of, refusal
from relay_int8.quantization.refine.chains import bound_of

WORTH = 0.75
"""Share of the noise above which factors are left out: ranges of least error clip what reaches
furthest, so that a channel which does costs less than its extremes say."""


@dataclass(frozen=True, kw_only=True)
class Stream:
    """What writes and reads the channels of a stream.

    Parameters
    ----------
    tensors
        All tensors that have its channels, in their order, with those inside a producer: products
        without bias, sums without residual.
    producers
        The layers that add to them.
    readers
        The layers whose weights take the factors.
    """

    tensors: tuple[str, ...]
    producers: tuple[Group, ...]
    readers: tuple[Group, ...]

    @property
    def name(self) -> str:
        """Return that of what its first producer gives."""
        return self.producers[0].name

    @property
    def channels(self) -> int:
        """Return how many there are."""
        return len(self.producers[0].weight_rows)

    def shares(self, factors: np.ndarray) -> list[tuple[Group, np.ndarray]]:
        """Return each producer with the factors of what it gives."""
        return [(producer, factors) for producer in self.producers]


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
        own = set(stream.tensors)
        lent = any((name in own) != (each.like in own) for name, each in plan.tensors.items())
        readers = [one for one in stream.readers if _names([*one.members, one.output]) & integer]
        parts = dict.fromkeys(stream.tensors, (0, stream.channels))
        tensors = {name: part for name, part in parts.items() if name in wanted}
        if tensors and readers and not lent:
            matrices = [_weights(one) for one in readers if not _is_depthwise(one)]
            free = [_weights(one)[:, 0] for one in readers if _is_depthwise(one)]
            scalable.append(
                ScalableChannels(
                    name=stream.name,
                    deciding=tuple(tensors),
                    bounds=np.full(stream.channels, np.inf),
                    positions=math.prod(dataflow.shape(stream.producers[0].output)[2:]),
                    tensors=tensors,
                    moved={name: part for name, part in parts.items() if name not in wanted},
                    reads=tuple(matrices),
                    free_reads=tuple(free),
                    worth=WORTH,
                )
            )
    return scalable


def _stream(own: Sequence[Group], readers: Sequence[Group]) -> Stream | None:
    """Return the stream of what gives tensors that are tied and reads them, None if it is none."""
    producers = [group for group in own if isinstance(operator_of(group), Linear)]
    is_joined = any(len(group.inputs) > 1 for group in own)
    if not (producers and readers and is_joined):
        return None
    inside = [str(var.name) for group in own for var in (*group.members, group.output)]
    return Stream(
        tensors=tuple(dict.fromkeys(inside)), producers=tuple(producers), readers=tuple(readers)
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
    return _has_channels(group) and (linear_of(group).groups(group) == 1 or _is_depthwise(group))


def _has_channels(group: Group) -> bool:
    """Say whether a layer of constant weights has its channels on axis 1."""
    if not isinstance(operator_of(group), Linear) or group.weight is None or refusal(group):
        return False
    return linear_of(group).channel_axis % len(dataflow.shape(group.output)) == 1


def _is_homogeneous(group: Group) -> bool:
    """Say whether positive factors pass a group's activation."""
    return not isinstance(group.activation, Smooth) and bound_of(group.activation) == np.inf


def _is_depthwise(layer: Group) -> bool:
    shape = layer.weight_rows.shape
    return len(shape) == 4 and shape[1] == 1


def _weights(reader: Group) -> np.ndarray:
    """Return float64 (channels, outputs, taps), outputs being 1 behind a depthwise reader."""
    outputs = 1 if _is_depthwise(reader) else len(reader.weight_rows)
    assert reader.weight is not None
    w = linear_of(reader).by_input(reader, reader.weight.values)
    return w.reshape(len(w), outputs, -1).astype(np.float64)


def _tie(tied: dict[str, set[str]], names: set[str]) -> None:
    """Join the sets that some tensors are in."""
    together = names.union(*(tied.get(name, set()) for name in names))
    tied.update(dict.fromkeys(together, together))


def _names(tensors: Iterable[relax.Var]) -> set[str]:
    return {str(var.name) for var in tensors}
