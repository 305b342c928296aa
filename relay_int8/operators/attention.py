"""Attention: two products of activations and the softmax between them, as one kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from relay_int8.graph import dataflow
from relay_int8.graph.attention import AttentionSubgraph as AttentionParts
from relay_int8.graph.attention import Mask
from relay_int8.graph.group import Group
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.activation_product import ActivationProduct, memory, scaling
from relay_int8.operators.kernel import F32, Kernel
from schedules.spec import Attention as Spec


class Attention(ActivationProduct):
    """``softmax(factor * q k' + mask) v``."""

    kind = "attention"
    in_fixed_point = False  # its powers and quotients are of float32

    def depth(self, group: Group) -> int:
        """Return how many products the longer sums have, of scores or of values."""
        attention = _attention(group)
        return max(attention.depth, attention.keys)

    def macs(self, group: Group) -> int:
        """Return those of both products."""
        attention = _attention(group)
        batch = attention.outer.batch
        matrices = attention.outer.heads * (batch if isinstance(batch, int) else 1)
        return matrices * attention.queries * attention.keys * (attention.depth + attention.width)

    def constant_tensors(self, group: Group) -> list[np.ndarray]:
        """Return a constant mask."""
        mask = _attention(group).mask
        return [] if mask is None or mask.values is None else [mask.values]

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return the kernel; powers are of 2, so that log2(e) is part of the scores' multiplier."""
        attention = _attention(group)
        q, k, v = xs
        scores = np.float64(q.scale) * np.float64(k.scale) * attention.factor * math.log2(math.e)
        mean = np.float64(v.scale) * attention.gain / (1.0 if y is None else np.float64(y.scale))
        m_scores = np.asarray(scores, np.float32)
        spec = Spec(
            queries=attention.queries,
            keys=attention.keys,
            depth=attention.depth,
            width=attention.width,
            **memory(attention.outer, q=attention.q, k=attention.k, v=attention.v, y=attention.y),
            mask_shape=None if attention.mask is None else _mask_shape(attention.mask),
            mask_strides=None if attention.mask is None else attention.mask.strides,
            q=q.dtype,
            k=k.dtype,
            v=v.dtype,
            y=y.dtype if y else F32,
        )
        return spec, {"m_scores": m_scores, **scaling(np.array([mean]), xs, y)}


def _mask_shape(mask: Mask) -> tuple[int, ...]:
    return dataflow.shape(mask.tensor) if mask.values is None else tuple(mask.values.shape)


def _attention(group: Group) -> AttentionParts:
    assert group.attention is not None
    return group.attention
