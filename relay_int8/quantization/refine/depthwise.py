"""Scale the channels in front of depthwise layers to one range, those behind them, and of norms.

Such a layer has a weight scale for each channel that it reads, so that a factor costs nothing
there, and the tensor's one scale serves all channels alike. What the producer writes is
multiplied, by its weights or, where it ends in a function such as swish, behind that; the reader's
weights are divided. The float network computes the same up to rounding, the integers of all weights
stay as they were; multipliers differ, and what is rounded after them. Behind a clip (ReLU6) that
holds for images whose channels are not larger than in calibration.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt
import tvm
from tvm import IRModule

from relay_int8.calibration.channels import Factors, ScalableChannels
from relay_int8.compiler.passes.qdq.replace_weights import ReplaceWeights
from relay_int8.compiler.passes.qdq.scale_norms import ScaleNorms
from relay_int8.compiler.passes.qdq.scale_results import ScaleResults
from relay_int8.errors import CalibrationError
from relay_int8.graph import dataflow
from relay_int8.graph.group import Group, Smooth
from relay_int8.graph.norm_readers import find_norm_readers
from relay_int8.graph.plan import Plan
from relay_int8.messages import few
from relay_int8.numerics.equalization import free_factors
from relay_int8.operators.registry import linear_of
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.refine.chains import Chain, find_chains
from relay_int8.quantization.refine.norms import scalable_norms
from relay_int8.quantization.refine.pointwise import pointwise_chains, scalable_pointwise


def scalable_channels(
    mod: IRModule, plan: Plan, config: QuantConfig
) -> tuple[ScalableChannels, ...]:
    """Return the channels of a normalized float module that depthwise layers alone read.

    Those that depthwise layers write (:mod:`relay_int8.quantization.refine.pointwise`), and those
    of norms that dense layers read (:mod:`relay_int8.quantization.refine.norms`), are among them.
    Tensors that are not quantized have no use for factors, and are left out. There are none where
    ``config`` does not want this equalization.
    """
    if config.applied.equalization != "depthwise":
        return ()
    wanted = set(plan.calibrated)
    scalable = []
    for chain in _depthwise_chains(mod, plan.additions).values():
        tensors = {name: part for name, part in chain.tensors.items() if name in wanted}
        if chain.name in tensors:
            scalable.append(
                ScalableChannels(
                    name=chain.name,
                    bounds=chain.bounds,
                    positions=_positions(chain),
                    tensors=tensors,
                    gains=_gains(chain),
                )
            )
    return (*scalable, *scalable_pointwise(mod, plan), *scalable_norms(mod, plan))


def depthwise_factors(
    mod: IRModule,
    maxima: Mapping[str, npt.NDArray[np.float32]],
    images: int,
    separate: Collection[str] = (),
) -> dict[str, npt.NDArray[np.float32]]:
    """Return the factors of every tensor that depthwise layers alone read.

    Parameters
    ----------
    mod
        Normalized float module.
    maxima
        Tensor -> (channels,): the largest magnitude of each channel; of what depthwise layers
        write, too.
    images
        Of how many images.
    separate
        Functions that no layer before them computes.
    """
    chosen = {}
    for name, chain in _depthwise_chains(mod, separate).items():
        values, gains = images * _positions(chain), _gains(chain)
        results = {reader: float(maxima[reader].max()) for reader in gains}
        chosen[name] = free_factors(maxima[name], chain.bounds, values, gains, results)
    return chosen


def with_factors(mod: IRModule, factors: Factors) -> IRModule:
    """Return a normalized float module with channels scaled, ``mod`` itself without any factors.

    Parameters
    ----------
    mod
        Of any batch.
    factors
        As a calibration table has them.

    Raises
    ------
    CalibrationError
        A tensor cannot be scaled, or has another number of channels.
    """
    if not factors:
        return mod
    chains = _depthwise_chains(mod) | pointwise_chains(mod)
    norms = {each.norm.name: len(each.gamma) for each in find_norm_readers(mod["main"])}
    sizes = {name: sum(chain.sizes) for name, chain in chains.items()} | norms
    faults = [name for name, each in factors.items() if sizes.get(name) != len(each)]
    if faults:
        raise CalibrationError(
            f"the calibration table has factors for channels of {few(faults)}, which the model has "
            "not beside depthwise layers, nor behind norms; calibrate this model again"
        )
    of_norms = {name: each for name, each in factors.items() if name in norms}
    weights: dict[str, npt.NDArray[np.float32]] = {}
    biases: dict[str, npt.NDArray[np.float32]] = {}
    results: dict[str, npt.NDArray[np.float32]] = {}
    for name, each in factors.items():
        if name in norms:
            continue
        chain = chains[name]
        parts = np.split(each, np.cumsum(chain.sizes)[:-1])
        for layer, part in zip(chain.producers, parts, strict=True):
            assert layer.weight is not None
            if isinstance(layer.activation, Smooth):
                results[layer.name] = linear_of(layer).addend(part)
                continue
            axis = linear_of(layer).weight_axis
            w = weights.get(layer.name, layer.weight.values)
            weights[layer.name] = np.moveaxis(np.moveaxis(w, axis, -1) * part, -1, axis)
            if layer.bias is not None:
                biases[layer.name] = layer.bias * part
        for reader in chain.readers:
            assert reader.weight is not None
            w = weights.get(reader.name, reader.weight.values)
            weights[reader.name] = linear_of(reader).divided_by_input(reader, w, each)
    replaced = [ReplaceWeights(weights, biases), ScaleNorms(of_norms), ScaleResults(results)]
    result: IRModule = tvm.transform.Sequential(replaced)(mod)
    return result


def _depthwise_chains(mod: IRModule, separate: Collection[str] = ()) -> dict[str, Chain]:
    chains = find_chains(mod["main"], separate)
    return {chain.name: chain for chain in chains if chain.is_depthwise}


def _gains(chain: Chain) -> dict[str, npt.NDArray[np.float64]]:
    """Return what readers multiply errors of the channels by, where these need not fill the range.

    Behind a function most channels of trained networks are close to zero on most images, and far
    larger on others: a channel grows only as far as it gains by it.
    """
    if not chain.passes_functions:
        return {}
    return {reader.name: _root_sums(reader) for reader in chain.readers}


def _root_sums(reader: Group) -> npt.NDArray[np.float64]:
    """Return (channels,): the root of the sum of squares of the weights that read each channel.

    What a function behind them multiplies large sums by is part of them.
    """
    assert reader.weight is not None
    layer = linear_of(reader)
    steep = np.moveaxis(reader.weight.values, layer.weight_axis, -1) * reader.steepness
    w = layer.by_input(reader, np.moveaxis(steep, -1, layer.weight_axis))
    sums: npt.NDArray[np.float64] = np.square(w, dtype=np.float64).sum(axis=1)
    return np.sqrt(sums)


def _positions(chain: Chain) -> int:
    """Return the height times the width of what a chain's producers write."""
    return math.prod(dataflow.shape(chain.producers[0].output)[2:])
