"""Where a factor can move from one layer's output channels into the weights that read them.

producer (conv2d | dense, + bias, relu | leaky | prelu | relu6), or a concat of nothing else
    -> max_pool2d | avg_pool2d | pad | resize | reshape of 1 x 1 images, any number of them
    -> readers (conv2d | dense with constant weights), all of them
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.capability import refusal
from relay_int8.graph.groups import Clip, Group, adds_values, find_groups

TRANSPARENT = ("max_pool2d", "avg_pool2d", "pad", "resize", "reshape")


@dataclass(frozen=True, kw_only=True)
class Chain:
    """What makes the channels of a tensor, and all that reads them.

    Parameters
    ----------
    name
        The tensor.
    producers
        Of its channels, in their order.
    readers
        The layers whose weights take the factors.
    """

    name: str
    producers: tuple[Group, ...]
    readers: tuple[Group, ...]

    @property
    def bounds(self) -> np.ndarray:
        """Return (channels,): where each channel is clipped, infinite where it is not."""
        return np.repeat([_bound(producer) for producer in self.producers], self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of channels that each producer makes."""
        weights = (producer.weight.values for producer in self.producers if producer.weight)
        pairs = zip(self.producers, weights, strict=True)
        return tuple(len(by_output(producer, values)) for producer, values in pairs)


def find_chains(func: relax.Function) -> list[Chain]:
    """Return every chain of a normalized float function, in the order of its producers."""
    groups = find_groups(func)
    results = {str(var.name) for var in dataflow.results(func)}
    reading: dict[str, list[Group]] = {}
    for group in groups:
        for var in (*group.inputs, *group.floats):
            reading.setdefault(str(var.name), []).append(group)
    sources = {group.name: group for group in groups if _bound(group) is not None}
    chains = []
    for group in groups:
        producers = [group] if group.name in sources else _joined(group, sources, reading, results)
        readers = None
        if producers:
            readers = _readers(group, _channel_axis(producers[0]), reading, results)
        if producers and readers:
            chain = Chain(name=group.name, producers=tuple(producers), readers=tuple(readers))
            chains.append(chain)
    return chains


def by_output(layer: Group, w: np.ndarray) -> np.ndarray:
    """Return (channels, -1): weights ``w`` of a layer sorted by the channel they produce."""
    return w.reshape(len(w), -1) if layer.kind == "conv2d" else w.T


def by_input(layer: Group, w: np.ndarray) -> np.ndarray:
    """Return (channels, -1): weights ``w`` of a layer sorted by the channel they read."""
    if layer.kind == "dense":
        return w
    groups = int(layer.root.attrs.groups)
    split = w.reshape(groups, len(w) // groups, w.shape[1], -1)
    return np.moveaxis(split, 2, 1).reshape(groups * w.shape[1], -1)


def _joined(
    group: Group, sources: dict[str, Group], reading: dict[str, list[Group]], results: set[str]
) -> list[Group] | None:
    """Return what a concat of channels joins, or None where a factor cannot pass to all of it."""
    if group.kind != "concat" or refusal(group) is not None:
        return None
    if int(group.root.attrs.axis) % len(dataflow.shape(group.root)) != 1:
        return None
    names = [str(var.name) for var in group.inputs]
    if any(name not in sources or name in results or len(reading[name]) > 1 for name in names):
        return None
    if any(_channel_axis(sources[name]) != 1 for name in names):
        return None
    return [sources[name] for name in names]


def _bound(group: Group) -> float | None:
    """Return the clip's upper bound, or None where a factor cannot pass the epilogue."""
    if group.kind not in ("conv2d", "dense") or group.weight is None or group.residual:
        return None
    if group.weight.values.ndim != (4 if group.kind == "conv2d" else 2):
        return None
    if isinstance(group.activation, Clip):
        return group.activation.high if group.activation.low == 0 else None
    return np.inf


def _channel_axis(layer: Group) -> int:
    """Return the axis along which a layer's result has its channels."""
    return 1 if layer.kind == "conv2d" else len(dataflow.shape(layer.output)) - 1


def _readers(
    group: Group, axis: int, reading: dict[str, list[Group]], results: set[str]
) -> list[Group] | None:
    """Return the layers that read a tensor by its channels on ``axis``, or None if others do."""
    if group.name in results or not reading.get(group.name):
        return None
    found: list[Group] = []
    for reader in reading[group.name]:
        if reader.kind in ("conv2d", "dense") and reader.weight is not None:
            names = [str(var.name) for var in reader.inputs]
            if names[0] != group.name or group.name in names[1:]:
                return None  # it is somebody's residual
            last = len(dataflow.shape(group.output)) - 1
            if axis != (1 if reader.kind == "conv2d" else last):
                return None
            found.append(reader)
        elif axis == 1 and reader.kind in TRANSPARENT and _keeps_channels(reader):
            behind = _readers(reader, axis, reading, results)
            if behind is None:
                return None
            found += behind
        else:
            return None
    return found


def _keeps_channels(group: Group) -> bool:
    if group.activation is not None or adds_values(group):
        return False
    before, after = dataflow.shape(group.inputs[0]), dataflow.shape(group.output)
    channels = _channels(before)
    if channels is None or channels != _channels(after):
        return False
    if group.kind != "reshape":
        return len(before) == len(after)
    rows = before[0]  # nothing but these and channels: both orders of the elements are the same
    return after[0] == rows and math.prod(before) == rows * channels


def _channels(shape: tuple[int, ...]) -> int | None:
    """Return how many channels a tensor with rows in front has: those of an image, or the last."""
    if len(shape) < 2:
        return None
    return shape[1] if len(shape) == 4 else shape[-1]
