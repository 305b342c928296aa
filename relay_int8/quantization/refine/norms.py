"""Scale the channels of norms that dense layers read.

Norms of trained transformers have a few channels that reach ten times as far as the others, and
take the steps of the tensor's one scale. Gamma and beta are multiplied by a factor of each channel,
the weights that read it divided, as far as rounding the two together gains by it
(``numerics.equalization.least_noise_factors``). It costs nothing at run time, but where something
else reads the norm too (the residual addition behind it): then it is computed twice.
"""

from __future__ import annotations

import numpy as np
from tvm import IRModule

from relay_int8.calibration.channels import LeastNoise, ScalableChannels
from relay_int8.graph.norm_readers import NormReaders, find_norm_readers
from relay_int8.graph.plan import Plan


def scalable_norms(mod: IRModule, plan: Plan) -> list[ScalableChannels]:
    """Return the channels of norms whose integer readers are dense layers, all of them."""
    integer = plan.integer_layers
    shared = {tensor.like for name, tensor in plan.tensors.items() if tensor.like != name}
    return [
        _channels(each)
        for each in find_norm_readers(mod["main"])
        if each.norm.name in plan.calibrated
        and each.norm.name not in shared
        and not any(other.name in integer for other in each.others)
    ]


def _channels(each: NormReaders) -> ScalableChannels:
    name, channels = each.norm.name, len(each.gamma)
    weights = [reader.weight_rows.T for reader in each.readers]
    choice = LeastNoise(
        reads=(np.concatenate(weights, axis=1).astype(np.float64)[..., None],),
        # Normalized values have a mean square of one.
        power=each.gamma.astype(np.float64) ** 2 + each.beta.astype(np.float64) ** 2,
    )
    return ScalableChannels(name=name, tensors={name: (0, channels)}, choice=choice)
