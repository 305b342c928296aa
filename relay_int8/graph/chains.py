"""Where a factor can move from one layer's output channels into the weights that read them.

producer (conv2d | dense, + bias, relu | leaky | prelu | relu6), or a concat of nothing else
    -> max_pool2d | avg_pool2d | pad | resize | reshape of 1 x 1 images, any number of them
    -> readers (conv2d | dense with constant weights), all of them
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.groups import Clip, Group, find_groups

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
        readers = _readers(group, reading, results) if producers else None
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
    if group.kind != "concat" or int(group.root.attrs.axis) != 1:
        return None
    names = [str(var.name) for var in group.inputs]
    if any(name not in sources or name in results or len(reading[name]) > 1 for name in names):
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


def _readers(
    group: Group, reading: dict[str, list[Group]], results: set[str]
) -> list[Group] | None:
    """Return the layers that read a tensor, or None if something else does."""
    if group.name in results or not reading.get(group.name):
        return None
    found: list[Group] = []
    for reader in reading[group.name]:
        if reader.kind in ("conv2d", "dense") and reader.weight is not None:
            names = [str(var.name) for var in reader.inputs]
            if names[0] != group.name or group.name in names[1:]:
                return None  # it is somebody's residual
            found.append(reader)
        elif reader.kind in TRANSPARENT and _keeps_channels(reader):
            behind = _readers(reader, reading, results)
            if behind is None:
                return None
            found += behind
        else:
            return None
    return found


def _keeps_channels(group: Group) -> bool:
    if group.activation is not None:
        return False
    before, after = dataflow.shape(group.inputs[0]), dataflow.shape(group.output)
    if group.kind != "reshape":
        return before[1] == after[1]
    return before[:2] == after[:2] and all(size == 1 for size in before[2:])
