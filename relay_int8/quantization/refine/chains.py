"""Where a factor can move from one layer's output channels into the weights that read them.

producer (conv2d | dense, + bias, relu | leaky | prelu | relu6 | a function such as swish), or a
concat of nothing else
    -> max_pool2d | avg_pool2d | pad | resize | reshape of 1 x 1 images, any number of them
    -> readers (conv2d | dense with constant weights), all of them
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import Clip, Group, Leaky, Smooth
from relay_int8.graph.groups import find_groups
from relay_int8.operators.concat import Concat
from relay_int8.operators.linear import Linear
from relay_int8.operators.registry import linear_of, operator_of, refusal
from relay_int8.quantization.refine.channel_layers import ChannelLayers


@dataclass(frozen=True, kw_only=True)
class Chain(ChannelLayers):
    """The producers of a tensor's channels, and all layers that read them.

    Parameters
    ----------
    between
        What stands between, and has the same channels: pools, pads and the like.
    """

    between: tuple[Group, ...] = ()

    @property
    def bounds(self) -> np.ndarray:
        """Return (channels,): where each channel is clipped, infinite where it is not."""
        return np.repeat([_bound(producer) for producer in self.producers], self.sizes)

    @property
    def passes_functions(self) -> bool:
        """Whether a factor cannot move into some producer's weights: a function is behind them.

        It multiplies what the function gives.
        """
        return any(isinstance(producer.activation, Smooth) for producer in self.producers)

    @property
    def is_depthwise(self) -> bool:
        """Whether all its readers have a scale of weights for each of its channels."""
        return all(reader.is_depthwise for reader in self.readers)

    @property
    def tensors(self) -> dict[str, tuple[int, int]]:
        """Return the tensors that have its channels, and which of them, first and last + 1."""
        ends = np.cumsum(self.sizes)
        parts = {
            layer.name: (int(end - size), int(end))
            for layer, size, end in zip(self.producers, self.sizes, ends, strict=True)
        }
        whole = (0, int(ends[-1]))
        return {**parts, **{group.name: whole for group in self.between}, self.name: whole}

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of channels that each producer makes."""
        return tuple(len(producer.weight_rows) for producer in self.producers)


def find_chains(func: relax.Function, separate: Collection[str] = ()) -> list[Chain]:
    """Return every chain of a normalized float function, in the order of its producers.

    Parameters
    ----------
    func
        The function.
    separate
        Functions that no layer before them computes: no factor passes these.
    """
    groups = find_groups(func, separate)
    results = {str(var.name) for var in dataflow.results(func)}
    reading: dict[str, list[Group]] = {}
    for group in groups:
        for var in (*group.inputs, *group.floats):
            reading.setdefault(str(var.name), []).append(group)
    sources = {group.name: group for group in groups if _bound(group) is not None}
    chains = []
    for group in groups:
        producers = [group] if group.name in sources else _joined(group, sources, reading, results)
        behind = None
        if producers:
            behind = _behind(group, channel_axis(producers[0]), reading, results)
        if producers and behind:
            chain = Chain(
                name=group.name,
                producers=tuple(producers),
                readers=tuple(one for one in behind if one.weight is not None),
                between=tuple(one for one in behind if one.weight is None),
            )
            chains.append(chain)
    return chains


def _joined(
    group: Group, sources: dict[str, Group], reading: dict[str, list[Group]], results: set[str]
) -> list[Group] | None:
    """Return what a concat of channels joins, or None where a factor cannot pass to all of it."""
    record = operator_of(group)
    if not isinstance(record, Concat) or refusal(group) or record.axis(group) != 1:
        return None
    names = [str(var.name) for var in group.inputs]
    if any(name not in sources or name in results or len(reading[name]) > 1 for name in names):
        return None
    if any(channel_axis(sources[name]) != 1 for name in names):
        return None
    return [sources[name] for name in names]


def _bound(group: Group) -> float | None:
    """Return the clip's upper bound, or None where a factor cannot pass the epilogue."""
    record = operator_of(group)
    if not isinstance(record, Linear) or record.refusal(group) or group.residual:
        return None
    return bound_of(group.activation)


def bound_of(activation: Clip | Leaky | Smooth | None) -> float | None:
    """Return a clip's upper bound, infinity without a clip, None where it has a lower one too."""
    if isinstance(activation, Clip):
        return activation.high if activation.low == 0 else None
    return np.inf


def _passes(group: Group) -> bool:
    """Say whether factors of the channels of all that a group reads pass to its result."""
    scaled = operator_of(group).scaled_inputs(group)
    return group.activation is None and len(group.inputs) == len(scaled) == 1


def channel_axis(layer: Group) -> int:
    """Return the axis along which a layer's input and result have their channels."""
    return linear_of(layer).channel_axis % len(dataflow.shape(layer.output))


def _behind(
    group: Group, axis: int, reading: dict[str, list[Group]], results: set[str]
) -> list[Group] | None:
    """Return the layers that read a tensor by its channels on ``axis``, and what is between.

    None if anything else reads it.
    """
    if group.name in results or not reading.get(group.name):
        return None
    followers: list[Group] = []
    for reader in reading[group.name]:
        if isinstance(operator_of(reader), Linear) and reader.weight is not None:
            names = [str(var.name) for var in reader.inputs]
            if names[0] != group.name or group.name in names[1:]:
                return None  # it is somebody's residual
            if axis != channel_axis(reader):
                return None
            followers.append(reader)
        elif axis == 1 and _passes(reader):
            behind = _behind(reader, axis, reading, results)
            if behind is None:
                return None
            followers += [reader, *behind]
        else:
            return None
    return followers
