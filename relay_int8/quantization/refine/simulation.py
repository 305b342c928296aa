"""Quantization simulated in NumPy: its parameters, and what it does to tensors and layers.

Integers are whole numbers in float32, less their zero point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.graph.group import Group
from relay_int8.graph.plan import Plan
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.registry import linear_of

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
CACHED = 2**16  # values that are quantized at a time: 256 KiB


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Integer weights of a layer.

    Parameters
    ----------
    integers
        Whole numbers in float32, shaped as the layer's weights.
    scales
        (channels,) float32, of each output channel.
    largest_sum
        The largest sum of the magnitudes of a channel's integers.
    """

    integers: Array
    scales: Array
    largest_sum: float

    def reals(self, group: Group) -> Array:
        """Return what they stand for, float32."""
        axis = linear_of(group).weight_axis
        values: Array = np.moveaxis(np.moveaxis(self.integers, axis, -1) * self.scales, -1, axis)
        return np.ascontiguousarray(values)


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """How a network is quantized.

    Parameters
    ----------
    plan
        Which layers are integers, and which tensors.
    params
        Of the calibrated tensors; one that is missing stays in float.
    weights
        Layer -> integers, made by :func:`rounded` if missing.
    biases
        Layer -> (channels,) bias, in place of the float one.
    """

    plan: Plan
    params: Mapping[str, QParams]
    weights: Mapping[str, Weights] = field(default_factory=dict)
    biases: Mapping[str, Array] = field(default_factory=dict)


def scale_of(x: QParams | None) -> np.float32:
    """Return the scale of a layer's input; that of reals is 1."""
    return np.float32(1) if x is None else x.scale


def of_integers(
    group: Group, xs: Sequence[Array], x: QParams | None, w: Weights, b: Array | None
) -> Array:
    """Return a layer's result in reals, float32.

    Parameters
    ----------
    xs
        The integers of its input, as :func:`quantized` returns them, and its residual in reals.
    x
        Of its input; None: that is reals.
    w, b
        Its weights and bias.
    """
    largest = np.inf if x is None else float(np.abs(x.clamp).max()) * w.largest_sum
    scales = scale_of(x) * w.scales
    return linear_of(group).evaluate_integers(group, xs, w.integers, scales, b, largest)


def quantized(x: Array, params: QParams) -> Array:
    """Return the integers of ``x`` less their zero point, float32."""
    low, high = params.clamp
    x = np.asarray(x, np.float32, order="C")
    q: Array = np.empty_like(x)
    flat, integers = x.reshape(-1), q.reshape(-1)
    for start in range(0, len(flat), CACHED):
        block = integers[start : start + CACHED]
        np.divide(flat[start : start + CACHED], params.scale, out=block)
        np.rint(block, out=block)
        np.clip(block, low, high, out=block)
    return q


def fake_quantize(x: Array, params: QParams) -> Array:
    """Return the reals that the integers of ``x`` stand for, float32."""
    q = quantized(x, params)
    q *= params.scale
    return q


def weights_of(group: Group, rows: Array, scales: Array) -> Weights:
    """Return integer weights from rows, output channels first, as ``Group.weight_rows`` is."""
    sums = np.abs(rows.reshape(len(rows), -1)).sum(axis=1, dtype=np.float64)
    integers = np.moveaxis(rows.astype(np.float32), 0, linear_of(group).weight_axis)
    return Weights(
        integers=np.ascontiguousarray(integers),
        scales=scales,
        largest_sum=float(sums.max(initial=0.0)),
    )


def rounded(group: Group, s_x: np.float32) -> Weights:
    """Return the layer's weights rounded to nearest, for an input of scale ``s_x``."""
    rows = group.weight_rows
    scales = qparams.weight_scales(rows, group.bias_or_zero, s_x)
    return weights_of(group, qparams.quantize_weight(rows, scales).astype(np.float32), scales)


def with_rounded(layers: Mapping[str, Group], simulation: Simulation) -> Simulation:
    """Return the simulation with the weights that it lacks, rounded once for all runs.

    ``layers`` are those of the network, by name.
    """
    params = params_of(simulation)
    weights = dict(simulation.weights)
    for layer in simulation.plan.layers:
        group = layers.get(layer.name)
        if layer.integer and group is not None and group.weight is not None:
            scale = scale_of(params.get(str(group.inputs[0].name)))
            weights.setdefault(group.name, rounded(group, scale))
    return replace(simulation, weights=weights)


def params_of(simulation: Simulation) -> dict[str, QParams]:
    """Return the parameters of every tensor that is quantized."""
    return {
        name: simulation.params[tensor.like]
        for name, tensor in simulation.plan.tensors.items()
        if tensor.like in simulation.params
    }
