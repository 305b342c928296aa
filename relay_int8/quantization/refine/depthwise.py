"""Scale the channels in front of depthwise layers to one range, those behind them, and of norms.

Such a layer has a weight scale for each channel that it reads, so that a factor costs nothing
there, and the tensor's one scale serves all channels alike. What the producer writes is
multiplied, by its weights or, where it ends in a function such as swish, behind that; the reader's
weights are divided. The float network computes the same up to rounding, the integers of all weights
stay as they were; multipliers differ, and what is rounded after them. Behind a clip (ReLU6) that
holds for images whose channels are not larger than in calibration.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt
from tvm import IRModule

from relay_int8.calibration.channels import FreeFactors, ScalableChannels
from relay_int8.graph.group import Group
from relay_int8.graph.plan import Plan
from relay_int8.numerics.equalization import free_factors
from relay_int8.operators.registry import linear_of
from relay_int8.quantization.refine.chains import Chain, find_chains


def scalable_depthwise(mod: IRModule, plan: Plan) -> list[ScalableChannels]:
    """Return the channels of a normalized float module that depthwise layers alone read."""
    wanted = set(plan.calibrated)
    return [
        chain.scalable(
            wanted,
            FreeFactors(bounds=chain.bounds, positions=chain.positions, gains=_gains(chain)),
        )
        for name, chain in depthwise_chains(mod, plan.additions).items()
        if name in wanted
    ]


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
    for name, chain in depthwise_chains(mod, separate).items():
        values, gains = images * chain.positions, _gains(chain)
        results = {reader: float(maxima[reader].max()) for reader in gains}
        chosen[name] = free_factors(maxima[name], chain.bounds, values, gains, results)
    return chosen


def depthwise_chains(mod: IRModule, separate: Collection[str] = ()) -> dict[str, Chain]:
    """Return the chains that depthwise layers alone read, by their tensors."""
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
