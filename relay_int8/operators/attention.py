"""Attention: two products of activations and the softmax between them, as one kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from relay_int8.graph import dataflow
from relay_int8.graph.attention import Attention as Found
from relay_int8.graph.groups import Group
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.kernel import Kernel, clamp_steps, zero_points
from relay_int8.operators.operator import Operator
from relay_int8.operators.product import too_deep
from schedules.spec import Attention as Spec


class Attention(Operator):
    """``softmax(factor * q k' + mask) v``."""

    kind = "attention"
    pays_alone = True
    requantizes = True
    in_fixed_point = False  # its powers and quotients are of float32

    def refusal(self, group: Group) -> str | None:
        """Say where a sum of products may leave int32."""
        found = _found(group)
        return too_deep(max(found.depth, found.keys))

    def macs(self, group: Group) -> int:
        """Return those of both products."""
        found = _found(group)
        batch = found.outer.batch
        matrices = found.outer.heads * (batch if isinstance(batch, int) else 1)
        return matrices * found.queries * found.keys * (found.depth + found.width)

    def gives_float(self, group: Group) -> bool:
        """Say yes."""
        return True

    def constant_tensors(self, group: Group) -> list[np.ndarray]:
        """Return a constant mask."""
        mask = _found(group).mask
        return [] if mask is None or mask.values is None else [mask.values]

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return the kernel; powers are of 2, so that log2(e) is part of the scores' multiplier."""
        found, mask = _found(group), _found(group).mask
        q, k, v = xs
        scores = np.float64(q.scale) * np.float64(k.scale) * found.factor * math.log2(math.e)
        mean = np.float64(v.scale) * found.gain / (1.0 if y is None else np.float64(y.scale))
        constants = {
            "m_scores": np.asarray(scores, np.float32),
            "m": np.array([mean]),
            "z": np.append(zero_points(q, k, v), np.int32(y.zero_point if y else 0)),
            "clamp": clamp_steps(None, y),
        }
        mask_shape = None
        if mask is not None:
            tensor, values = mask.tensor, mask.values
            mask_shape = dataflow.shape(tensor) if values is None else tuple(values.shape)
        spec = Spec(
            batch=found.outer.batch,
            heads=found.outer.heads,
            queries=found.queries,
            keys=found.keys,
            depth=found.depth,
            width=found.width,
            q_shape=dataflow.shape(found.q.tensor),
            k_shape=dataflow.shape(found.k.tensor),
            v_shape=dataflow.shape(found.v.tensor),
            y_shape=dataflow.shape(found.y.tensor),
            q_strides=found.q.strides,
            k_strides=found.k.strides,
            v_strides=found.v.strides,
            y_strides=found.y.strides,
            mask_shape=mask_shape,
            mask_strides=None if mask is None else mask.strides,
            q=q.dtype,
            k=k.dtype,
            v=v.dtype,
            y=y.dtype if y else "float32",
        )
        return spec, constants


def _found(group: Group) -> Found:
    assert group.attention is not None
    return group.attention
