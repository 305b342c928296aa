"""Scale the channels between a depthwise layer and the layers of 1 x 1 pixels that read it.

    depthwise layer, no activation -> readers (conv2d of 1 x 1 | dense, no groups), all of them

Nothing keeps the channels of a depthwise layer alike: some reach far, and take the steps of the
tensor's one scale. What it writes is multiplied by a factor of each channel, at no cost, as each
has a scale of weights there; the weights that read it are divided, as far as rounding the two
together gains by it (``numerics.equalization.least_noise_factors``). Behind an activation most
values are zero or at a bound, which costs no rounding: these are left as they are.
"""

from __future__ import annotations

import math

import numpy as np
from tvm import IRModule

from relay_int8.calibration.channels import LeastNoise, ScalableChannels
from relay_int8.graph.group import Group
from relay_int8.graph.plan import Plan
from relay_int8.operators.registry import linear_of
from relay_int8.quantization.refine.chains import Chain, find_chains


def scalable_pointwise(mod: IRModule, plan: Plan) -> list[ScalableChannels]:
    """Return the channels of a normalized float module that such layers write and read."""
    wanted = set(plan.calibrated)
    return [
        chain.scalable(wanted, _choice(chain))
        for name, chain in pointwise_chains(mod).items()
        if name in wanted
    ]


def pointwise_chains(mod: IRModule) -> dict[str, Chain]:
    """Return the chains from depthwise layers to layers of 1 x 1 pixels, by their tensors."""
    return {chain.name: chain for chain in find_chains(mod["main"]) if is_pointwise(chain)}


def is_pointwise(chain: Chain) -> bool:
    """Say whether depthwise layers write a chain, and layers of 1 x 1 pixels alone read it."""
    if chain.is_depthwise:  # of a single channel: it is among those in front of such layers
        return False
    return all(map(_is_linear_depthwise, chain.producers)) and all(map(_is_matrix, chain.readers))


def _is_linear_depthwise(layer: Group) -> bool:
    alone = layer.is_depthwise and linear_of(layer).groups(layer) == len(layer.weight_rows)
    return alone and layer.activation is None


def _is_matrix(layer: Group) -> bool:
    shape = layer.weight_rows.shape
    return math.prod(shape[2:]) == 1 and linear_of(layer).groups(layer) == 1


def _choice(chain: Chain) -> LeastNoise:
    reads = [reader.weight_rows.reshape(len(reader.weight_rows), -1).T for reader in chain.readers]
    weights = np.concatenate(reads, axis=1).astype(np.float64)
    return LeastNoise(reads=(weights[..., None],), bounds=chain.bounds)
