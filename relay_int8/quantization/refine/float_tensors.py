"""Tensors of the float network on a few images, computed once for all that is asked of them.

For choosing among answers, which look at the same images again and again. The table that a network
is built with comes from the kernels of :class:`relay_int8.calibration.network.CalibrationNetwork`,
whose ranges are the same up to float rounding.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.channels import Factors
from relay_int8.calibration.histogram import Grid, Histogram, Range
from relay_int8.calibration.observe import UNSCALED, Runner, Statistics
from relay_int8.data.dataset import Image
from relay_int8.numerics.channel_means import averaged
from relay_int8.quantization.refine.network import Arrays, NumpyNetwork

Array = npt.NDArray[Any]
KEPT_BYTES = 2**29  # of tensors that are kept, not computed again
STACK = "stack"  # the one array of a calibration "image": which stack of images it stands for


@dataclass(eq=False)
class _Stack:
    """Some images, and what is known of them."""

    inputs: Arrays
    ranges: dict[str, Array] = field(default_factory=dict)
    means: dict[str, Array] = field(default_factory=dict)
    counts: dict[tuple[str, Grid], Array] = field(default_factory=dict)


class FloatTensors:
    """All tensors of ``network`` on ``images``; kept where they fit into ``KEPT_BYTES``.

    Parameters
    ----------
    network
        Its additions are those of the plans that are tried.
    images
        In their order.
    """

    def __init__(self, network: NumpyNetwork, images: Sequence[Image]) -> None:
        self.network = network
        self.images = images
        self.is_kept = tensor_bytes(network) * len(images) <= KEPT_BYTES
        self._stacks = [_Stack(inputs) for inputs in network.images(images)]
        self._last: tuple[_Stack, Arrays] | None = None

    @cached_property
    def kept(self) -> Arrays:
        """Every tensor with all images, or none where memory would not hold them."""
        if not self.is_kept:
            return {}
        kept: Arrays = {}
        first = 0
        for stack, size in zip(self._stacks, self._sizes, strict=True):
            for name, values in self._run(stack).items():
                if name not in kept:
                    kept[name] = np.empty((len(self.images), *values.shape[1:]), values.dtype)
                kept[name][first : first + size] = values
            first += size
        return kept

    def __len__(self) -> int:
        return len(self._stacks)

    def __iter__(self) -> Iterator[Image]:
        """Yield what ``calibration.calibrate`` takes for images: the numbers of stacks."""
        for number in range(len(self._stacks)):
            yield {STACK: np.array(number)}

    def stack(self, number: int) -> _Stack:
        """Return one of them."""
        return self._stacks[number]

    def tensors(self, number: int) -> Arrays:
        """Return all tensors of one stack, inputs too."""
        stack = self._stacks[number]
        if self.is_kept:
            first = sum(self._sizes[:number])
            return {
                name: values[first : first + self._sizes[number]]
                for name, values in self.kept.items()
            }
        if self._last is None or self._last[0] is not stack:
            self._last = None
            self._last = stack, self._run(stack)
        return self._last[1]

    @cached_property
    def _sizes(self) -> list[int]:
        return [len(stack.inputs[self.network.inputs[0]]) for stack in self._stacks]

    def _run(self, stack: _Stack) -> Arrays:
        return {**stack.inputs, **self.network.run(stack.inputs, keep=lambda _: True)}


class KnownRunner(Runner):
    """A ``calibration.Runner`` on float tensors: what was counted once is not counted again.

    Parameters
    ----------
    floats
        Its "images" are theirs.
    observed, means
        Names of the tensors whose ranges, and whose channel means are wanted.
    """

    def __init__(
        self, floats: FloatTensors, observed: Collection[str], means: Collection[str]
    ) -> None:
        self._floats = floats
        self._observed = observed
        self._means = means

    def statistics(self, image: Image) -> Statistics:
        """Return ranges and means of a stack."""
        number = int(image[STACK])
        stack = self._floats.stack(number)
        for name in self._observed:
            if name not in stack.ranges:
                stack.ranges[name] = value_range(self._floats.tensors(number)[name])
        for name in self._means:
            if name not in stack.means:
                tensor, last = averaged(name)
                values = self._floats.tensors(number)[tensor]
                stack.means[name] = _means(self._floats.network.rows(tensor, values), last)
        return Statistics(
            ranges={name: stack.ranges[name] for name in self._observed},
            means={name: stack.means[name] for name in self._means},
            extremes={},
        )

    def histograms(
        self, image: Image, grids: Mapping[str, Grid], factors: Factors = UNSCALED
    ) -> Mapping[str, npt.NDArray[np.int32]]:
        """Return the counts of each tensor of a stack over its grid.

        Its channels are those of a network that is scaled already; factors are none.
        """
        assert not factors
        number = int(image[STACK])
        counts = self._floats.stack(number).counts
        for name, grid in grids.items():
            if (name, grid) not in counts:
                histogram = Histogram.of(self._floats.tensors(number)[name], grid)
                counts[name, grid] = histogram.counts.astype(np.int32)
        return {name: counts[name, grid] for name, grid in grids.items()}

    def observe(
        self, image: Image, grids: Mapping[str, Grid]
    ) -> tuple[Statistics, Mapping[str, npt.NDArray[np.int32]]]:
        """Return both."""
        return self.statistics(image), self.histograms(image, grids)


def tensor_bytes(network: NumpyNetwork) -> int:
    """Return what all tensors of one image take."""
    return 4 * sum(math.prod(shape) for shape in network.shapes.values())


def value_range(values: Array) -> npt.NDArray[np.float32]:
    """Return float32 (3,): minimum, maximum, count of values that are not finite."""
    low, high = values.min(), values.max()
    if np.isfinite(low) and np.isfinite(high):
        return np.array([low, high, 0], np.float32)
    return Range.statistic(values)


def _means(values: Array, last: bool) -> npt.NDArray[np.float32]:
    channel = 1 if values.ndim == 4 and not last else values.ndim - 1
    axes = tuple(axis for axis in range(values.ndim) if axis != channel)
    means: npt.NDArray[np.float32] = values.mean(axis=axes, dtype=np.float64).astype(np.float32)
    return means
