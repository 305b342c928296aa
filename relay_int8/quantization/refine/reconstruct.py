"""Weights and biases of integer layers, chosen on what the layers read, from first to last.

Each layer is fed with what the quantized network before it gives, and its integers are chosen so
that it comes closest to the float layer fed with floats: errors of earlier layers are made up for,
as far as a layer can. The bias makes the means of its channels equal to the float ones, the
empirical bias correction of Nagel et al., ICCV 2019, section 4.2 (appendix D); how weights are
rounded is :mod:`relay_int8.numerics.rounding`'s.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.observe import Progress
from relay_int8.data.dataset import Image
from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.numerics.rounding import ROUNDINGS, Rounding, nearest
from relay_int8.operators.images import rows
from relay_int8.operators.registry import linear_of
from relay_int8.quantization.refine.float_tensors import FloatTensors
from relay_int8.quantization.refine.network import NumpyNetwork, read_last
from relay_int8.quantization.refine.parallel import in_parallel
from relay_int8.quantization.refine.simulation import (
    Arrays,
    Simulation,
    Weights,
    fake_quantize,
    of_integers,
    params_of,
    quantized,
    scale_of,
    weights_of,
)

Array = npt.NDArray[Any]
IMAGES = 128  # at most, that layers are fitted to
MEMORY_BYTES = 2**30  # of activations that live at a time
LARGEST_K = 4608  # a layer that sums more products (3 x 3 x 512) keeps its weights
COLUMNS = 16384  # output positions that moments are taken from, at most, spread over the images
FEWEST_COLUMNS = 2048
COLUMNS_PER_INPUT = 32  # positions for each of the k weights of a channel: moments within a sixth


class Layers(NamedTuple):
    """Layer -> integer weights, and -> bias."""

    weights: dict[str, Weights]
    biases: dict[str, Array]


def reconstruct(
    network: NumpyNetwork,
    simulation: Simulation,
    data: Iterable[Image],
    *,
    rounding: str = "nearest",
    floats: FloatTensors | None = None,
    largest_k: int = LARGEST_K,
    progress: Progress | None = None,
) -> Layers:
    """Return weights and biases of the integer layers.

    Parameters
    ----------
    network
        The float network.
    simulation
        Plan and parameters of its tensors; its weights and biases are not read.
    data
        Calibration images; the first :data:`IMAGES` of them, fewer where memory would not hold the
        activations (one gibibyte).
    rounding
        A name of ``ROUNDINGS``.
    floats
        Tensors of the float network on all ``data``; what they have not kept is computed.
    largest_k
        Layers that sum more products keep their weights, rounded to nearest.
    progress
        Called after every layer.
    """
    count = min(IMAGES, max(1, MEMORY_BYTES // (2 * _peak_bytes(network))))
    reconstruction = _Reconstruction(
        network,
        simulation,
        list(islice(data, count)),
        rounding=ROUNDINGS[rounding],
        floats=floats,
        largest_k=largest_k,
    )
    for done, group in enumerate(network.groups, 1):
        reconstruction.step(group)
        if progress:
            progress("reconstruct", done, len(network.groups))
    return reconstruction.constants


class _Reconstruction:
    """The float and the quantized network side by side, group by group, on all images."""

    def __init__(
        self,
        network: NumpyNetwork,
        simulation: Simulation,
        images: Sequence[Image],
        *,
        rounding: Rounding,
        floats: FloatTensors | None,
        largest_k: int,
    ) -> None:
        self._floats = floats
        self._known = {} if floats is None else floats.kept
        self._unscaled = network if floats is None else floats.unscaled
        self._images = len(images)
        self._largest_k = largest_k
        self.constants = Layers({}, {})
        self._network = network
        self._rounding = rounding
        self._integer = simulation.plan.integer_layers
        self._params = params_of(simulation)
        self._float: Arrays = network.stacked(images)
        self._quantized: Arrays = dict(self._float)
        self._read_last = read_last(network.groups)

    def step(self, group: Group) -> None:
        """Choose the constants of one layer, and run it in both networks."""
        names, floats = ([str(var.name) for var in some] for some in (group.inputs, group.floats))
        integer = group.name in self._integer
        if integer and group.weight is not None:
            result = self._of_chosen(group, [self._wanted(name) for name in names], names)
        else:
            seen = [self._seen(name, integer) for name in names]
            seen += [self._seen(name, False) for name in floats]
            result = self._evaluated(self._network, group, seen)
        if group.name in self._known:
            self._float[group.name] = self._known[group.name][: self._images]
        else:
            unscaled = self._unscaled.layers[group.name]
            xs = [self._float[name] for name in (*names, *floats)]
            self._float[group.name] = self._evaluated(self._unscaled, unscaled, xs)
        self._quantized[group.name] = result
        for name in self._read_last.get(group.name, ()):
            del self._float[name], self._quantized[name]

    def _of_chosen(self, group: Group, xs: Sequence[Array], names: Sequence[str]) -> Array:
        """Choose a layer's constants; return what it gives with them."""
        x, values = self._params.get(names[0]), self._quantized[names[0]]
        q = [values if x is None else quantized(values, x)]
        q += [self._seen(name, True) for name in names[1:]]
        w, b = self._chosen(group, xs, q, x)
        self.constants.weights[group.name], self.constants.biases[group.name] = w, b
        parts = in_parallel(lambda chunk: of_integers(group, chunk, x, w, b), self._chunks(q))
        return np.concatenate(parts)

    def _seen(self, name: str, integer: bool) -> Array:
        values = self._quantized[name]
        if name in self._params and (integer or name in self._integer):
            return fake_quantize(values, self._params[name])
        return values

    def _wanted(self, name: str) -> Array:
        """Return a tensor as the float network has it."""
        values = self._float[name]
        return values if self._floats is None else self._floats.scaled_tensor(name, values)

    def _evaluated(self, network: NumpyNetwork, group: Group, xs: Sequence[Array]) -> Array:
        evaluate = partial(network.evaluate, group)
        return np.concatenate(in_parallel(evaluate, self._chunks(xs)))

    def _chunks(self, xs: Sequence[Array]) -> Iterable[list[Array]]:
        size = self._network.stack_size
        for start in range(0, len(xs[0]), size):
            yield [x[start : start + size] for x in xs]

    def _chosen(
        self, group: Group, xs: Sequence[Array], q: Sequence[Array], x: QParams | None
    ) -> tuple[Weights, Array]:
        rows = group.weight_rows.astype(np.float64)
        bias = group.bias_or_zero.astype(np.float64)
        scales = qparams.weight_scales(rows, bias, scale_of(x))
        groups = linear_of(group).groups(group)
        by_group = rows.reshape(groups, len(rows) // groups, -1)
        rounding = self._rounding if by_group.shape[2] <= self._largest_k else nearest
        moments = _Moments(group, by_group, scale_of(x), second=rounding is not nearest)
        for x_chunk, q_chunk in zip(self._chunks(xs), self._chunks(q), strict=True):
            moments.add(x_chunk, q_chunk, len(xs[0]))
        s = scales.astype(np.float64).reshape(groups, -1)
        integers = rounding(by_group, s, *moments.quadratic())
        b = bias + moments.shift(integers * s[..., None])
        return weights_of(group, integers.reshape(rows.shape), scales), b.astype(np.float32)


class _Moments:
    """First and second moments of what a layer reads, and of what it should give.

    ``wanted`` is the float layer's product, plus what its residual has lost. Second moments, which
    rounding to nearest does without, are those of sampled positions.

    Parameters
    ----------
    rows
        (groups, channels of a group, k) float weights.
    scale
        Of the layer's input.
    second
        Whether second moments are wanted.
    """

    def __init__(self, group: Group, rows: Array, scale: np.float32, *, second: bool) -> None:
        self.rows = rows
        self._group = group
        self._layer = linear_of(group)
        self._scale = float(scale)
        g, oc, k = rows.shape
        self._square = np.zeros((g, k, k)) if second else None
        self._cross = np.zeros((g, oc, k))
        self._sums = np.zeros((g, k)), np.zeros((g, oc))  # of sampled columns
        self._wanted = min(COLUMNS, max(FEWEST_COLUMNS, COLUMNS_PER_INPUT * k))
        self._sampled = 0
        self._means = np.zeros((g, k)), np.zeros((g, k)), np.zeros((g, oc))  # over everything
        self._count = 0
        self._rng = np.random.default_rng(0)

    def add(self, x: Sequence[Array], q: Sequence[Array], images: int) -> None:
        """Add some of ``images`` images: what the float layer reads, and the integer one.

        ``q`` are the integers of the input, and the residual in reals.
        """
        positions_each = self._layer.positions(self._group)
        count = len(x[0]) * positions_each
        lost = self._lost(x, q)
        self._means[0][:] += self._layer.patch_sums(self._group, q[0])
        self._means[1][:] += self._layer.patch_sums(self._group, x[0])
        if lost is not None:
            self._means[2][:] += lost.sum(axis=3, dtype=np.float64).sum(axis=0)
        self._count += count
        if self._square is None:
            return
        share = min(count, max(1, self._wanted * len(x[0]) // images))
        positions = np.arange(count)
        if share < count:
            positions = np.sort(self._rng.permutation(count)[:share])
        columns = self._layer.sampled_patches(self._group, q[0], positions).astype(np.float64)
        reals = self._layer.sampled_patches(self._group, x[0], positions).astype(np.float64)
        wanted = np.matmul(self.rows, reals)
        if lost is not None:
            image, position = np.divmod(positions, positions_each)
            wanted += lost[image, :, :, position].transpose(1, 2, 0)
        self._sums[0][:] += columns.sum(axis=2)
        self._sums[1][:] += wanted.sum(axis=2)
        self._sampled += share
        self._square += np.matmul(columns, columns.transpose(0, 2, 1))
        self._cross += np.matmul(wanted, columns.transpose(0, 2, 1))

    def _lost(self, x: Sequence[Array], q: Sequence[Array]) -> Array | None:
        """Return (n, groups, channels of a group, positions): what the residual has lost.

        None where none is added, or where an activation is between.
        """
        group = self._group
        if not group.residual or (group.ends_in_sum and group.activation is not None):
            return None
        lost = rows(x[1] - q[1], dataflow.shape(self._group.inputs[1]))
        g, oc, _ = self.rows.shape
        channels_first = np.moveaxis(lost, self._layer.channel_axis, 1)
        return channels_first.reshape(len(lost), g, oc, -1)

    def quadratic(self) -> tuple[Array, Array]:
        """Return of each group of channels ``a`` and ``p`` of the rounding problem."""
        g, oc, k = self.rows.shape
        if self._square is None:
            return np.zeros((g, k, k)), np.zeros((g, oc, k))
        mean_x, mean_y = (total / self._sampled for total in self._sums)
        a = self._square / self._sampled - mean_x[:, :, None] * mean_x[:, None]
        p = self._cross / self._sampled - mean_y[:, :, None] * mean_x[:, None]
        return a * self._scale**2, p * self._scale

    def shift(self, w: Array) -> Array:
        """Return (oc,): what the bias must add so that the means are the wanted ones."""
        mean_q, mean_x, mean_lost = (total / self._count for total in self._means)
        wanted = np.einsum("gok,gk->go", self.rows, mean_x) + mean_lost
        shift: Array = wanted - np.einsum("gok,gk->go", w, mean_q * self._scale)
        return shift.reshape(-1)


def _peak_bytes(network: NumpyNetwork) -> int:
    """Return the most bytes of activations that one image needs at a time."""
    last = read_last(network.groups)
    sizes = {group.name: 4 * math.prod(dataflow.shape(group.output)) for group in network.groups}
    sizes |= {
        str(param.name): 4 * math.prod(dataflow.shape(param))
        for param in network.mod["main"].params
    }
    live = sum(sizes[name] for name in network.inputs)
    peak = live
    for group in network.groups:
        live += sizes[group.name]
        peak = max(peak, live)
        live -= sum(sizes[name] for name in last.get(group.name, ()))
    return peak
