"""Layers that write the channels of some tensors, and all that read them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from relay_int8.calibration.channels import FreeFactors, LeastNoise, ScalableChannels
from relay_int8.graph import dataflow
from relay_int8.graph.group import Group


@dataclass(frozen=True, kw_only=True)
class ChannelLayers:
    """A chain or a stream.

    Parameters
    ----------
    name
        Of the tensor, or of the first of several.
    producers
        Of its channels, in their order.
    readers
        The layers whose weights take the factors.
    """

    name: str
    producers: tuple[Group, ...]
    readers: tuple[Group, ...]

    @property
    @abstractmethod
    def tensors(self) -> dict[str, tuple[int, int]]:
        """Return the tensors that have its channels, and which of them, first and last + 1."""

    @property
    def channels(self) -> int:
        """Number of channels."""
        return max(end for _, end in self.tensors.values())

    @property
    def positions(self) -> int:
        """Return the height times the width of what its producers write."""
        return math.prod(dataflow.shape(self.producers[0].output)[2:])

    def shares(self, factors: np.ndarray) -> list[tuple[Group, np.ndarray]]:
        """Return each producer with the factors of what it gives, of (channels,) ``factors``."""
        parts = self.tensors
        return [(layer, factors[slice(*parts[layer.name])]) for layer in self.producers]

    def scalable(
        self,
        wanted: Collection[str],
        choice: FreeFactors | LeastNoise,
        deciding: tuple[str, ...] = (),
    ) -> ScalableChannels:
        """Return its channels for calibration, which finds ranges of the tensors ``wanted``."""
        parts = self.tensors
        return ScalableChannels(
            name=self.name,
            tensors={name: part for name, part in parts.items() if name in wanted},
            moved={name: part for name, part in parts.items() if name not in wanted},
            deciding=deciding,
            choice=choice,
        )
