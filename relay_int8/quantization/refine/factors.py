"""Factors of channels: which a network can have, and the network that has them.

Multiplying channels where they are written and dividing the weights that read them leaves the
float network as it was, and moves where rounding costs. Four kinds of places have such channels:
in front of depthwise layers, behind them, behind norms, and along residual streams.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import tvm
from tvm import IRModule
from tvm.ir.transform import Pass

from relay_int8.calibration.channels import Factors, ScalableChannels
from relay_int8.compiler.passes.qdq.replace_weights import ReplaceWeights
from relay_int8.compiler.passes.qdq.scale_norms import ScaleNorms
from relay_int8.compiler.passes.qdq.scale_results import ScaleResults
from relay_int8.errors import CalibrationError
from relay_int8.graph.group import Smooth
from relay_int8.graph.norm_readers import find_norm_readers
from relay_int8.graph.plan import Plan
from relay_int8.messages import few
from relay_int8.operators.registry import linear_of
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.refine.chains import find_chains
from relay_int8.quantization.refine.channel_layers import ChannelLayers
from relay_int8.quantization.refine.depthwise import scalable_depthwise
from relay_int8.quantization.refine.norms import scalable_norms
from relay_int8.quantization.refine.pointwise import is_pointwise, scalable_pointwise
from relay_int8.quantization.refine.streams import find_streams, scalable_streams


def scalable_channels(
    mod: IRModule, plan: Plan, config: QuantConfig
) -> tuple[ScalableChannels, ...]:
    """Return the channels of a normalized float module that factors may serve.

    Tensors that are not quantized have no use for factors, and are left out. There are none where
    ``config`` does not want this equalization.
    """
    if config.applied.equalization != "depthwise":
        return ()
    return (
        *scalable_depthwise(mod, plan),
        *scalable_pointwise(mod, plan),
        *scalable_norms(mod, plan),
        *scalable_streams(mod, plan),
    )


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
    layers: dict[str, ChannelLayers] = {
        chain.name: chain
        for chain in find_chains(mod["main"])
        if chain.is_depthwise or is_pointwise(chain)
    }
    norms: dict[str, int] = {}
    if factors.keys() - layers.keys():
        layers |= find_streams(mod["main"])
    if factors.keys() - layers.keys():
        norms = {each.norm.name: len(each.gamma) for each in find_norm_readers(mod["main"])}
    sizes = {name: each.channels for name, each in layers.items()} | norms
    faults = [name for name, each in factors.items() if sizes.get(name) != len(each)]
    if faults:
        raise CalibrationError(
            f"the calibration table has factors for channels of {few(faults)}, which the model has "
            "not beside depthwise layers, behind norms or along residual additions; calibrate this "
            "model again"
        )
    of_norms = {name: each for name, each in factors.items() if name in norms}
    weights: dict[str, npt.NDArray[np.float32]] = {}
    biases: dict[str, npt.NDArray[np.float32]] = {}
    results: dict[str, npt.NDArray[np.float32]] = {}
    for name, each in factors.items():
        if name in norms:
            continue
        for layer, part in layers[name].shares(each):
            assert layer.weight is not None
            if isinstance(layer.activation, Smooth):
                results[layer.name] = linear_of(layer).addend(part)
                continue
            axis = linear_of(layer).weight_axis
            w = weights.get(layer.name, layer.weight.values)
            weights[layer.name] = np.moveaxis(np.moveaxis(w, axis, -1) * part, -1, axis)
            if layer.bias is not None:
                biases[layer.name] = layer.bias * part
        for reader in layers[name].readers:
            assert reader.weight is not None
            w = weights.get(reader.name, reader.weight.values)
            weights[reader.name] = linear_of(reader).divided_by_input(reader, w, each)
    passes: list[Pass] = [ReplaceWeights(weights, biases)] if weights else []
    passes += [ScaleNorms(of_norms)] if of_norms else []
    passes += [ScaleResults(results)] if results else []
    result: IRModule = tvm.transform.Sequential(passes)(mod)
    return result
