"""All steps of a recurrent layer, behind the products of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import RECURRENCE, Group, Weight
from relay_int8.graph.spec_calls import kernel_call, operands, spec_of
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.kernel import F32, Kernel, zero_points
from relay_int8.operators.operator import Operator
from schedules.spec import Recurrence as Spec
from schedules.spec.product import MOST_DEPTH


class Recurrence(Operator):
    """An LSTM, a GRU or an RNN; its state is scaled anew at each step, by its largest element."""

    kind = RECURRENCE
    pays_alone = True
    requantizes = True
    in_fixed_point = False  # its gates are of float32

    def refusal(self, group: Group) -> str | None:
        """Say where its weights are computed, or a sum of products may leave int32."""
        if group.state_weight is None:
            return "the weights of its state are computed"
        hidden = _spec(group).hidden
        if hidden > MOST_DEPTH:
            return f"it sums {hidden} products, which may leave int32; the most are {MOST_DEPTH}"
        return None

    def pair_refusal(self, group: Group) -> str | None:
        """Say where its weights have no Q/DQ pair."""
        weight = group.state_weight
        if weight is not None and weight.scale is not None and weight.zero_point is not None:
            by_row = weight.scale.shape == weight.values.shape[:1]
            if by_row and weight.dtype == "int8":
                return None
        return "the weights of its state are not int8 with zero point 0 and a scale a row"

    def gives_float(self, group: Group) -> bool:
        """Say yes: its state is float32."""
        return True

    def macs(self, group: Group) -> int:
        """Return the products of the state."""
        return _spec(group).multiplications

    def constant_tensors(self, group: Group) -> list[np.ndarray]:
        """Return the state before the first step, where that is constant."""
        tensors, _ = operands(group.root, _spec(group))
        arrays = [dataflow.constant(tensor) for tensor in tensors[1:]]
        return [array for array in arrays if array is not None]

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return the spec of the frontend, its products of integers."""
        weight = group.state_weight
        assert weight is not None and weight.scale is not None
        spec = replace(_spec(group), quantized=True, y=F32 if y is None else y.dtype)
        _, constants = operands(group.root, _spec(group))
        arrays = {name: value for name, value in constants.items() if isinstance(value, np.ndarray)}
        arrays["w"] = qparams.quantize_weight(weight.values, weight.scale)
        arrays |= {"scale": weight.scale, "start": np.zeros(len(weight.values), np.int32)}
        if y is not None:
            scale = np.array([y.scale], np.float32)
            arrays |= {"s": scale, "z": zero_points(y), "clamp": y.clamp.astype(np.float32)}
        return spec, arrays


def call_in_integers(group: Group) -> relax.Call:
    """Return the float call of ``group`` with products of integers, as they will be."""
    assert group.state_weight is not None
    values = group.state_weight.values
    scale = qparams.weight_scales(values, np.zeros(len(values)), np.float32(1))
    weighed = replace(group, state_weight=Weight(values, scale))
    spec, constants = Recurrence().integer_kernel(weighed, [], None)
    states = [relax.const(array) for array in Recurrence().constant_tensors(group)]
    return kernel_call(spec, [*group.floats, *states], constants)


def _spec(group: Group) -> Spec:
    spec = spec_of(group.root)
    assert isinstance(spec, Spec)
    return spec
