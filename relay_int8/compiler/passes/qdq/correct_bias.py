"""Give integer layers the bias that makes up for the mean error of their quantized weights.

    Before:  y = conv2d(x, w) + b
    After:   y = conv2d(x, w) + b'        b' from relay_int8.numerics.bias_correction

Place:  after calibration, before InsertQdq, which then quantizes b' like any other bias.
Exact:  changes the numbers by design. A layer without bias gets one; its result keeps its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import IRModule

from relay_int8.compiler.passes.qdq.layer_constants import with_constants
from relay_int8.errors import CalibrationError
from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.graph.layers import linear_layers, means_of
from relay_int8.graph.plan import Plan
from relay_int8.numerics.bias_correction import corrected_bias, tap_shares
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.registry import linear_of

Array = npt.NDArray[Any]


@tvm.transform.module_pass(opt_level=0, name="CorrectBias")
class CorrectBias:
    """Give integer layers a corrected bias.

    Parameters
    ----------
    plan
        Says which layers are integer.
    params
        Of the calibrated tensors.
    means
        Means of channels by name: those that :func:`averaged_tensors` names.
    """

    def __init__(
        self, plan: Plan, params: Mapping[str, QParams], means: Mapping[str, Array]
    ) -> None:
        self._plan = plan
        self._params = params
        self._means = means

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the corrected module; ``mod`` itself is left alone."""
        func = mod["main"]
        layers = linear_layers(func, self._plan)
        biases = corrected_biases(layers, self._plan, self._params, self._means)
        return with_constants(func, layers, {}, biases)


def corrected_biases(
    layers: Iterable[Group],
    plan: Plan,
    params: Mapping[str, QParams],
    means: Mapping[str, Array],
) -> dict[str, Array]:
    """Return layer -> corrected bias, one number a channel; parameters as :class:`CorrectBias`.

    Raises
    ------
    CalibrationError
        ``means`` lacks the channels that a layer reads.
    """
    return {layer.name: _bias(layer, plan, params, means) for layer in layers}


def _bias(
    layer: Group, plan: Plan, params: Mapping[str, QParams], means: Mapping[str, Array]
) -> Array:
    assert layer.weight is not None
    record = linear_of(layer)
    w, b = layer.weight_rows, layer.bias_or_zero
    conv = w.ndim == 4
    w = w if conv else w[:, :, None, None]
    x, name = str(layer.inputs[0].name), means_of(layer)
    groups = record.groups(layer)
    if name not in means or means[name].shape != (w.shape[1] * groups,):
        raise CalibrationError(
            f"bias correction needs the means of the {w.shape[1] * groups} channels of {x!r}, "
            "which the calibration table does not hold; calibrate again, or switch bias "
            "correction off"
        )
    s_x = params[plan.tensors[x].like].scale
    share = _shares(layer, record.fields(layer)) if conv else np.ones((1, 1))
    return corrected_bias(w, b, s_x, means[name], share, groups)


def _shares(layer: Group, fields: Mapping[str, Any]) -> Array:
    return tap_shares(
        (fields["height"], fields["width"]),
        dataflow.shape(layer.members[0])[2:],  # type: ignore[arg-type]
        fields["kernel"],
        strides=fields["strides"],
        dilation=fields["dilation"],
        padding=fields["padding"][:2],
    )
