"""Give integer layers the bias that makes up for the mean error of their quantized weights.

    Before:  y = conv2d(x, w) + b
    After:   y = conv2d(x, w) + b'        b' from relay_int8.numerics.bias_correction

Place:  after calibration, before InsertQdq, which then quantizes b' like any other bias.
Exact:  changes the numbers by design. A layer without bias gets one; its result keeps its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import IRModule, relax

from relay_int8.errors import CalibrationError
from relay_int8.graph import dataflow
from relay_int8.graph.groups import Group
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
        heads = {layer.members[0]: layer for layer in layers}
        biases = {layer.members[1]: layer for layer in layers if layer.bias is not None}
        writer = dataflow.FunctionWriter()
        done: dict[relax.Var, relax.Expr] = {}
        for var, value in dataflow.calls(func):
            value = dataflow.substitute(value, done)
            if var in biases:
                value = relax.op.add(done[biases[var].members[0]], self._bias(biases[var]))
            elif var in heads and heads[var].bias is None:
                product = writer.emit(f"{var.name}:product", value)
                value = relax.op.add(product, self._bias(heads[var]))
            done[var] = writer.emit(var.name, value)
        outputs = [done.get(var, var) for var in dataflow.results(func)]
        return writer.finish(func.params, outputs, dataflow.attributes(func))

    def _bias(self, layer: Group) -> relax.Expr:
        """Return the corrected bias, shaped to be added."""
        assert layer.weight is not None
        record = linear_of(layer)
        assert record is not None
        w, b = layer.weight_rows, layer.bias_or_zero
        conv = w.ndim == 4
        w = w if conv else w[:, :, None, None]
        x, means = str(layer.inputs[0].name), means_of(layer)
        groups = record.groups(layer)
        if means not in self._means or self._means[means].shape != (w.shape[1] * groups,):
            raise CalibrationError(
                f"bias correction needs the means of the {w.shape[1] * groups} channels of {x!r}, "
                "which the calibration table does not hold; calibrate again, or switch bias "
                "correction off"
            )
        s_x = self._params[self._plan.tensors[x].like].scale
        share = _shares(layer, record.fields(layer)) if conv else np.ones((1, 1))
        bias = corrected_bias(w, b, s_x, self._means[means], share, groups)
        return relax.const(record.addend(bias))


def _shares(layer: Group, fields: Mapping[str, Any]) -> Array:
    return tap_shares(
        (fields["height"], fields["width"]),
        dataflow.shape(layer.members[0])[2:],  # type: ignore[arg-type]
        fields["kernel"],
        strides=fields["strides"],
        dilation=fields["dilation"],
        padding=fields["padding"][:2],
    )
