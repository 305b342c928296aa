"""Scale channels of a float network so that it quantizes better; it computes the same.

Factors pass through ReLU, leaky ReLU, pooling, padding and concats as they are. A clip (ReLU6)
limits them (``numerics.equalization.within_clip``); what it lets pass of an image that
exceeds all calibration images is then not quite what it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import IRModule

from relay_int8.compiler.passes.qdq.replace_weights import ReplaceWeights
from relay_int8.data.dataset import Image
from relay_int8.graph.batch import with_batch
from relay_int8.graph.group import Group
from relay_int8.numerics.equalization import (
    cross_layer_factors,
    smoothing_factors,
    within_clip,
    within_range,
)
from relay_int8.operators.registry import linear_of
from relay_int8.quantization.config import Equalization
from relay_int8.quantization.refine.chains import Chain, find_chains
from relay_int8.quantization.refine.depthwise import depthwise_factors
from relay_int8.quantization.refine.factors import with_factors
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.refine.parallel import in_parallel
from relay_int8.quantization.refine.simulation import Arrays

Array = npt.NDArray[Any]
IMAGES = 128
SMOOTHING = 0.5  # SmoothQuant's alpha: how much of an outlier moves into the weights
ROUNDS = 20  # of cross-layer equalization: a layer's two neighbours settle with it


@dataclass(frozen=True, kw_only=True, eq=False)
class Equalized:
    """A float network with scaled channels.

    Parameters
    ----------
    mod
        The normalized module.
    factors
        Tensor -> (channels,): what its channels are multiplied by, of those that are scaled. Clips
        let pass on the calibration images what they did before, so that the tensor itself
        is multiplied by these.
    """

    mod: IRModule
    factors: Mapping[str, Array]


def equalize(mod: IRModule, data: Iterable[Image], how: Equalization) -> IRModule:
    """Return ``mod`` equalized as ``QuantConfig`` wants it, looking at the first images.

    "depthwise" is left to calibration, which keeps its factors in the table.
    """
    if how in ("none", "depthwise"):
        return mod
    maxima = channel_maxima(NumpyNetwork(with_batch(mod, 1)), islice(data, IMAGES))
    return equalized_by(mod, maxima, how, IMAGES).mod


def equalized_by(
    mod: IRModule,
    maxima: Mapping[str, Array],
    how: Equalization,
    images: int,
    separate: Collection[str] = (),
) -> Equalized:
    """Return ``mod`` equalized, its tensors' maxima (:func:`channel_maxima`) on images known.

    ``separate`` are functions that no layer before them computes.
    """
    if how == "none":
        return Equalized(mod=mod, factors={})
    if how == "depthwise":
        factors = depthwise_factors(mod, maxima, images, separate)
        chains = [chain for chain in find_chains(mod["main"]) if chain.name in factors]
        return Equalized(mod=with_factors(mod, factors), factors=_of_tensors(chains, factors))
    return (_balanced if how == "cross-layer" else _smoothed)(mod, maxima).equalized(mod)


def channel_maxima(network: NumpyNetwork, data: Iterable[Image]) -> dict[str, Array]:
    """Return (channels,): the largest magnitudes of each channel, of what chains have and give."""
    names = _observed(network)

    def _maxima(images: Arrays) -> dict[str, Array]:
        return _largest(network, names, network.run(images, keep=names.__contains__))

    return _merged(in_parallel(_maxima, network.images(data)))


def maxima_of(network: NumpyNetwork, stacks: Iterable[Mapping[str, Array]]) -> dict[str, Array]:
    """Return :func:`channel_maxima` of tensors that are known, a stack of images at a time."""
    names = _observed(network)
    return _merged(_largest(network, names, tensors) for tensors in stacks)


def _observed(network: NumpyNetwork) -> set[str]:
    """Return the tensors of all chains, and what depthwise layers write that read these."""
    chains = find_chains(network.mod["main"], network.separate)
    read = {reader.name for chain in chains if chain.is_depthwise for reader in chain.readers}
    return read.union(chain.name for chain in chains)


def _largest(
    network: NumpyNetwork, names: Iterable[str], tensors: Mapping[str, Array]
) -> dict[str, Array]:
    maxima = {}
    for name in names:
        values = np.abs(network.rows(name, tensors[name]))
        channel = 1 if values.ndim == 4 else values.ndim - 1
        maxima[name] = values.max(axis=tuple(i for i in range(values.ndim) if i != channel))
    return maxima


def _merged(stacks: Iterable[Mapping[str, Array]]) -> dict[str, Array]:
    maxima: dict[str, Array] = {}
    for stack in stacks:
        for name, largest in stack.items():
            maxima[name] = np.maximum(maxima.get(name, largest), largest)
    return maxima


def _balanced(mod: IRModule, maxima: Mapping[str, Array]) -> _Scaling:
    scaling = _Scaling(_weight_chains(mod), maxima)
    for _ in range(ROUNDS):
        for chain in scaling.chains:
            scaling.scale(chain, cross_layer_factors(*scaling.ranges(chain)))
    return scaling


def _smoothed(mod: IRModule, maxima: Mapping[str, Array]) -> _Scaling:
    scaling = _Scaling(_weight_chains(mod), maxima)
    for chain in scaling.chains:
        strength = 1.0 if chain.is_depthwise else SMOOTHING
        read = scaling.ranges(chain)[1]
        scaling.scale(chain, smoothing_factors(maxima[chain.name], read, strength))
    return scaling


def _weight_chains(mod: IRModule) -> list[Chain]:
    """Return the chains whose factors move from weights into weights."""
    return [chain for chain in find_chains(mod["main"]) if not chain.passes_functions]


def _of_tensors(chains: Iterable[Chain], factors: Mapping[str, Array]) -> dict[str, Array]:
    """Return the factors of every tensor that has the channels of a chain."""
    return {
        name: factors[chain.name][first:end]
        for chain in chains
        for name, (first, end) in chain.tensors.items()
    }


class _Scaling:
    """Weights and biases of the chains' layers in float64, and how far each channel has grown."""

    def __init__(self, chains: list[Chain], maxima: Mapping[str, Array]) -> None:
        self.chains = chains
        self._maxima = maxima
        self._weights: dict[str, Array] = {}
        self._biases: dict[str, Array] = {}
        self._grown: dict[str, Array] = {}
        for chain in chains:
            for layer in (*chain.producers, *chain.readers):
                assert layer.weight is not None
                self._weights[layer.name] = layer.weight.values.astype(np.float64)
                if layer.bias is not None:
                    self._biases[layer.name] = layer.bias.astype(np.float64)

    def ranges(self, chain: Chain) -> tuple[Array, Array]:
        """Return the largest magnitudes of each channel: of weights producing, and reading it."""
        produced = [linear_of(one).by_output(self._weights[one.name]) for one in chain.producers]
        read = [linear_of(one).by_input(one, self._weights[one.name]) for one in chain.readers]
        largest = np.concatenate([np.abs(rows).max(axis=1) for rows in produced])
        return largest, np.abs(np.concatenate(read, axis=1)).max(axis=1)

    def scale(self, chain: Chain, factors: Array) -> None:
        """Multiply a chain's channels, as far as its clips and its range allow."""
        largest = self._maxima[chain.name]
        before = self._grown.get(chain.name, np.ones(len(factors)))
        total = within_range(before * factors, largest, chain.bounds)
        total = within_clip(total, largest, chain.bounds)
        factors = total / before
        self._grown[chain.name] = total
        parts = np.split(factors, np.cumsum(chain.sizes)[:-1])
        for layer, part in zip(chain.producers, parts, strict=True):
            self._multiply(layer, part)
        for reader in chain.readers:
            w = self._weights[reader.name]
            self._weights[reader.name] = linear_of(reader).divided_by_input(reader, w, factors)

    def _multiply(self, layer: Group, factors: Array) -> None:
        w = self._weights[layer.name]
        rows = np.moveaxis(w, linear_of(layer).weight_axis, -1) * factors
        self._weights[layer.name] = np.moveaxis(rows, -1, linear_of(layer).weight_axis)
        if layer.name in self._biases:
            self._biases[layer.name] = self._biases[layer.name] * factors

    def equalized(self, mod: IRModule) -> Equalized:
        """Return ``mod`` with these weights."""
        replace = ReplaceWeights(self._weights, self._biases)
        scaled: IRModule = tvm.transform.Sequential([replace])(mod)
        return Equalized(mod=scaled, factors=_of_tensors(self.chains, self._grown))
