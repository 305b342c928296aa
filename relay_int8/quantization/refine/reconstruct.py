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
from relay_int8.operators.images import product, rows
from relay_int8.operators.registry import linear_of
from relay_int8.quantization.refine.network import (
    Arrays,
    NumpyNetwork,
    Simulation,
    fake_quantize,
    from_rows,
    read_last,
)

Array = npt.NDArray[Any]
MEMORY_BYTES = 2**30  # of activations that live at a time
LARGEST_K = 4608  # a layer that sums more products (3 x 3 x 512) keeps its weights
COLUMNS = 16384  # output positions that moments are taken from, spread over the images
CHUNK = 8


class Layers(NamedTuple):
    """Layer -> dequantized weights, and -> bias."""

    weights: dict[str, Array]
    biases: dict[str, Array]


def reconstruct(
    network: NumpyNetwork,
    simulation: Simulation,
    data: Iterable[Image],
    *,
    rounding: str = "nearest",
    images: int = 128,
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
        Calibration images; the first ``images`` of them, fewer where memory would not hold the
        activations (one gibibyte).
    rounding
        A name of ``ROUNDINGS``.
    progress
        Called after every layer.
    """
    count = min(images, max(1, MEMORY_BYTES // (2 * _peak_bytes(network))))
    walk = _Walk(network, simulation, list(islice(data, count)), ROUNDINGS[rounding])
    for done, group in enumerate(network.groups, 1):
        walk.step(group)
        if progress:
            progress("reconstruct", done, len(network.groups))
    return walk.found


class _Walk:
    """The float and the quantized network side by side, group by group, on all images."""

    def __init__(
        self,
        network: NumpyNetwork,
        simulation: Simulation,
        images: Sequence[Image],
        rounding: Rounding,
    ) -> None:
        self.found = Layers({}, {})
        self._network = network
        self._rounding = rounding
        self._integer = {layer.name for layer in simulation.plan.layers if layer.integer}
        self._params: dict[str, QParams] = {
            name: simulation.params[tensor.like]
            for name, tensor in simulation.plan.tensors.items()
            if tensor.like in simulation.params
        }
        self._float: Arrays = network.stacked(images)
        self._quantized: Arrays = dict(self._float)
        self._read_last = read_last(network.groups)

    def step(self, group: Group) -> None:
        """Choose the constants of one layer, and run it in both networks."""
        names, floats = ([str(var.name) for var in some] for some in (group.inputs, group.floats))
        xs = [self._float[name] for name in (*names, *floats)]
        integer = group.name in self._integer
        seen = [self._seen(name, integer) for name in names]
        seen += [self._seen(name, False) for name in floats]
        y = self._evaluated(group, xs)
        if integer and group.weight is not None:
            w, b = self._chosen(group, xs, seen)
            self.found.weights[group.name], self.found.biases[group.name] = w, b
            found = np.concatenate(
                [
                    linear_of(group).evaluate_with(group, chunk, w, b)
                    for chunk in self._chunks(seen)
                ],
                axis=0,
            )
        else:
            found = self._evaluated(group, seen)
        self._float[group.name], self._quantized[group.name] = y, found
        for name in self._read_last.get(group.name, ()):
            del self._float[name], self._quantized[name]

    def _seen(self, name: str, integer: bool) -> Array:
        values = self._quantized[name]
        if name in self._params and (integer or name in self._integer):
            return fake_quantize(values, self._params[name])
        return values

    def _evaluated(self, group: Group, xs: Sequence[Array]) -> Array:
        return np.concatenate([self._network.evaluate(group, chunk) for chunk in self._chunks(xs)])

    def _chunks(self, xs: Sequence[Array]) -> Iterable[list[Array]]:
        for start in range(0, len(xs[0]), CHUNK):
            yield [x[start : start + CHUNK] for x in xs]

    def _chosen(
        self, group: Group, xs: Sequence[Array], seen: Sequence[Array]
    ) -> tuple[Array, Array]:
        rows = group.weight_rows.astype(np.float64)
        bias = group.bias_or_zero.astype(np.float64)
        params = self._params.get(str(group.inputs[0].name))
        s_x = np.float32(1) if params is None else params.scale
        scales = qparams.weight_scales(rows, bias, s_x).astype(np.float64)
        groups = linear_of(group).groups(group)
        by_group = rows.reshape(groups, len(rows) // groups, -1)
        rounding = self._rounding if by_group.shape[2] <= LARGEST_K else nearest
        moments = _Moments(group, by_group, second=rounding is not nearest)
        for x, q in zip(self._chunks(xs), self._chunks(seen), strict=True):
            moments.add(x, q, len(xs[0]))
        problems = zip(by_group, scales.reshape(groups, -1), moments.quadratic(), strict=True)
        steps = np.concatenate([rounding(w, s, a, p) for w, s, (a, p) in problems])
        steps = steps.reshape(rows.shape)
        w = (steps * scales.reshape(-1, *(1,) * (rows.ndim - 1))).astype(np.float32)
        b = bias + moments.shift(w.reshape(by_group.shape).astype(np.float64))
        return from_rows(group, w), b.astype(np.float32)


class _Moments:
    """First and second moments of what a layer reads, and of what it should give.

    ``wanted`` is the float layer's product, plus what its residual has lost. Second moments, which
    rounding to nearest does without, are those of sampled positions.

    Parameters
    ----------
    rows
        (groups, channels of a group, k) float weights.
    second
        Whether second moments are wanted.
    """

    def __init__(self, group: Group, rows: Array, *, second: bool) -> None:
        self.rows = rows
        self._group = group
        g, oc, k = rows.shape
        self._square = np.zeros((g, k, k)) if second else None
        self._cross = np.zeros((g, oc, k))
        self._sums = np.zeros((g, k)), np.zeros((g, oc))  # of sampled columns
        self._sampled = 0
        self._means = np.zeros((g, k)), np.zeros((g, oc))  # sums over everything
        self._count = 0
        self._rng = np.random.default_rng(0)

    def add(self, x: Sequence[Array], seen: Sequence[Array], images: int) -> None:
        """Add some of ``images`` images."""
        columns = _columns(self._group, seen[0])
        wanted = product(self.rows, _columns(self._group, x[0]))
        if self._group.residual:
            lost = rows(x[1] - seen[1], dataflow.shape(self._group.inputs[1]))
            wanted += (
                lost.reshape(len(lost), *wanted.shape[:2], -1)
                .transpose(1, 2, 0, 3)
                .reshape(wanted.shape)
            )
        self._means[0][:] += columns.sum(axis=2, dtype=np.float64)
        self._means[1][:] += wanted.sum(axis=2, dtype=np.float64)
        self._count += columns.shape[2]
        if self._square is None:
            return
        share = max(1, COLUMNS * len(x[0]) // images)
        if columns.shape[2] > share:
            picked = np.sort(self._rng.permutation(columns.shape[2])[:share])
            columns, wanted = columns[:, :, picked], wanted[:, :, picked]
        self._sums[0][:] += columns.sum(axis=2, dtype=np.float64)
        self._sums[1][:] += wanted.sum(axis=2, dtype=np.float64)
        self._sampled += columns.shape[2]
        columns = columns.astype(np.float64)
        self._square += np.matmul(columns, columns.transpose(0, 2, 1))
        self._cross += np.matmul(wanted, columns.transpose(0, 2, 1))

    def quadratic(self) -> list[tuple[Array, Array]]:
        """Return of each group of channels ``a`` and ``p`` of the rounding problem."""
        g, _, k = self.rows.shape
        if self._square is None:
            return [(np.zeros((k, 0)), np.zeros((0, 0)))] * g
        mean_x, mean_y = (total / self._sampled for total in self._sums)
        a = self._square / self._sampled - mean_x[:, :, None] * mean_x[:, None]
        p = self._cross / self._sampled - mean_y[:, :, None] * mean_x[:, None]
        return list(zip(a, p, strict=True))

    def shift(self, w: Array) -> Array:
        """Return (oc,): what the bias must add so that the means are the wanted ones."""
        mean_x, mean_y = (total / self._count for total in self._means)
        shift: Array = (mean_y - np.einsum("gok,gk->go", w, mean_x)).reshape(-1)
        return shift


def _columns(group: Group, x: Array) -> Array:
    """Return float32 (groups, k, positions of all images)."""
    columns = linear_of(group).patches(group, x)
    return columns.transpose(1, 2, 0, 3).reshape(columns.shape[1], columns.shape[2], -1)


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
