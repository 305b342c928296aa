"""Tensors of the float network on a few images, computed once for all that is asked of them.

For choosing among answers, which look at the same images again and again. The table that a network
is built with comes from the kernels of :class:`relay_int8.calibration.network.CalibrationNetwork`,
whose ranges are the same up to float rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
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
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.refine.parallel import in_parallel
from relay_int8.quantization.refine.simulation import Arrays

Array = npt.NDArray[Any]
KEPT_BYTES = 2**29  # of tensors that are kept, not computed again
STACK = "stack"  # the one array of a calibration "image": which stack of images it stands for


@dataclass(eq=False)
class _Stack:
    """Some images, and what the network gives for them, once that is known."""

    inputs: Arrays
    outputs: Arrays | None = None


@dataclass(eq=False)
class Known:
    """What is known of the tensors of a stack."""

    ranges: dict[str, Array] = field(default_factory=dict)
    means: dict[str, Array] = field(default_factory=dict)
    counts: dict[tuple[str, Grid], Array] = field(default_factory=dict)


class ScaledTensors(Mapping[str, Array]):
    """Tensors by name, some with their channels scaled; these are made when they are asked for.

    Parameters
    ----------
    tensors
        As they are.
    factors
        Name -> factors, shaped to be multiplied.
    """

    def __init__(self, tensors: Mapping[str, Array], factors: Mapping[str, Array]) -> None:
        self._tensors = tensors
        self._factors = factors

    def __getitem__(self, name: str) -> Array:
        """Return a tensor, scaled if it has factors."""
        values = self._tensors[name]
        return values * self._factors[name] if name in self._factors else values

    def __contains__(self, name: object) -> bool:
        """Say whether there is such a tensor, without making it."""
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


class _Runs:
    """Runs of the unscaled network, each stack of images by itself."""

    def __init__(self, network: NumpyNetwork, images: Sequence[Image]) -> None:
        self.network = network
        self._count = len(images)
        self._is_kept = tensor_bytes(network) * len(images) <= KEPT_BYTES
        self.stacks = [_Stack(inputs) for inputs in network.images(images)]
        self.known = [Known() for _ in self.stacks]
        self._last: tuple[_Stack, Arrays] | None = None

    @cached_property
    def kept(self) -> Arrays:
        """Every tensor with all images, or none where memory would not hold them."""
        if not self._is_kept:
            return {}
        kept: Arrays = {}

        def _keep(number: int) -> None:
            for name, values in self._run(self.stacks[number]).items():
                if number == 0:
                    kept[name] = np.empty((self._count, *values.shape[1:]), values.dtype)
                kept[name][self._part(number)] = values

        _keep(0)
        in_parallel(_keep, range(1, len(self.stacks)))
        return kept

    def tensors(self, number: int) -> Arrays:
        """Return all tensors of one stack, inputs too."""
        if self._is_kept:
            return {name: values[self._part(number)] for name, values in self.kept.items()}
        stack = self.stacks[number]
        if self._last is None or self._last[0] is not stack:
            self._last = None
            self._last = stack, self._run(stack)
        return self._last[1]

    def outputs(self, number: int) -> Arrays:
        """Return what the network gives for one stack."""
        stack = self.stacks[number]
        if stack.outputs is None:
            self.tensors(number)
        assert stack.outputs is not None
        return stack.outputs

    def _part(self, number: int) -> slice:
        first = sum(self._sizes[:number])
        return slice(first, first + self._sizes[number])

    @cached_property
    def _sizes(self) -> list[int]:
        return [len(stack.inputs[self.network.inputs[0]]) for stack in self.stacks]

    def _run(self, stack: _Stack) -> Arrays:
        tensors = self.network.run(stack.inputs, keep=lambda _: True)
        stack.outputs = {name: tensors[name] for name in self.network.outputs}
        return {**stack.inputs, **tensors}


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
        self._runs = _Runs(network, images)
        self._factors: dict[str, Array] = {}
        self._known = self._runs.known

    def scaled(self, network: NumpyNetwork, factors: Mapping[str, Array]) -> FloatTensors:
        """Return those of the equalized ``network``: nothing is run, and nothing kept twice.

        Parameters
        ----------
        network
            The same layers with other weights.
        factors
            Tensor -> (channels,): by what its channels are larger (``Equalized``).
        """
        scaled = copy(self)
        scaled.network = network
        scaled._factors = {
            name: _shaped(each, len(network.shapes[name]))
            for name, each in factors.items()
            if name in network.shapes
        }
        scaled._known = [Known() for _ in self._known]
        return scaled

    @property
    def unscaled(self) -> NumpyNetwork:
        """The network that is run."""
        return self._runs.network

    @property
    def kept(self) -> Arrays:
        """Every tensor of the unscaled network with all images, none where memory is short."""
        return self._runs.kept

    def scaled_tensor(self, name: str, values: Array) -> Array:
        """Return a tensor of the unscaled network as the equalized one has it."""
        return values * self._factors[name] if name in self._factors else values

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Image]:
        """Yield what ``calibration.calibrate`` takes for images: the numbers of stacks."""
        for number in range(len(self)):
            yield {STACK: np.array(number)}

    def known(self, number: int, name: str) -> Known:
        """Return what is known of a tensor of a stack; unscaled ones share it."""
        return (self._known if name in self._factors else self._runs.known)[number]

    def inputs(self, number: int) -> Arrays:
        """Return the images of one stack."""
        return self._runs.stacks[number].inputs

    def tensors(self, number: int) -> Mapping[str, Array]:
        """Return all tensors of one stack, inputs too."""
        return ScaledTensors(self._runs.tensors(number), self._factors)

    def outputs(self, number: int) -> Arrays:
        """Return what the network gives for one stack; equalization does not change it."""
        return self._runs.outputs(number)


def _shaped(factors: Array, rank: int) -> Array:
    """Return factors of channels, float32, as they multiply a tensor of this rank."""
    each = np.asarray(factors, np.float32)
    return each.reshape(-1, 1, 1) if rank == 4 else each


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
        of = {name: self._floats.known(number, averaged(name)[0]) for name in self._means}
        ranged = {name: self._floats.known(number, name) for name in self._observed}
        missing = [name for name, known in ranged.items() if name not in known.ranges]
        for name, found in self._made(number, missing, value_range):
            ranged[name].ranges[name] = found
        missing = [name for name, known in of.items() if name not in known.means]
        for name, found in self._made(number, missing, self._mean):
            of[name].means[name] = found
        return Statistics(
            ranges={name: known.ranges[name] for name, known in ranged.items()},
            means={name: known.means[name] for name, known in of.items()},
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
        counted = {name: self._floats.known(number, name).counts for name in grids}
        missing = [name for name, grid in grids.items() if (name, grid) not in counted[name]]

        def _counts(tensors: Mapping[str, Array], name: str) -> Array:
            return Histogram.of(tensors[name], grids[name]).counts.astype(np.int32)

        for name, counts in self._made(number, missing, _counts):
            counted[name][name, grids[name]] = counts
        return {name: counted[name][name, grid] for name, grid in grids.items()}

    def _made(
        self, number: int, names: Sequence[str], make: Callable[[Mapping[str, Array], str], Array]
    ) -> Iterator[tuple[str, Array]]:
        """Yield names with what is made of a stack's tensors, which are computed if need be."""
        if names:
            tensors = self._floats.tensors(number)
            yield from zip(names, in_parallel(lambda name: make(tensors, name), names), strict=True)

    def _mean(self, tensors: Mapping[str, Array], name: str) -> Array:
        tensor, last = averaged(name)
        return _means(self._floats.network.rows(tensor, tensors[tensor]), last)

    def observe(
        self, image: Image, grids: Mapping[str, Grid]
    ) -> tuple[Statistics, Mapping[str, npt.NDArray[np.int32]]]:
        """Return both."""
        return self.statistics(image), self.histograms(image, grids)


def tensor_bytes(network: NumpyNetwork) -> int:
    """Return what all tensors of one image take."""
    return 4 * sum(math.prod(shape) for shape in network.shapes.values())


def value_range(tensors: Mapping[str, Array], name: str) -> npt.NDArray[np.float32]:
    """Return float32 (3,): minimum, maximum, count of values that are not finite."""
    values = tensors[name]
    low, high = values.min(), values.max()
    if np.isfinite(low) and np.isfinite(high):
        return np.array([low, high, 0], np.float32)
    return Range.statistic(values)


def _means(values: Array, last: bool) -> npt.NDArray[np.float32]:
    channel = 1 if values.ndim == 4 and not last else values.ndim - 1
    axes = tuple(axis for axis in range(values.ndim) if axis != channel)
    means: npt.NDArray[np.float32] = values.mean(axis=axes, dtype=np.float64).astype(np.float32)
    return means
