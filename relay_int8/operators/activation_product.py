"""Products of two activations, alone or in attention: what their records have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.graph.matrices import Outer
from relay_int8.graph.matrix_products import Operand
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.kernel import Constants, clamp_steps, zero_points
from relay_int8.operators.operator import Operator
from schedules.spec.product import MOST_DEPTH


class ActivationProduct(Operator):
    """A kernel of int32 sums of products of bytes."""

    pays_alone = True
    requantizes = True

    def depth(self, group: Group) -> int:
        """Return how many products its longest sum has."""
        raise NotImplementedError(self.kind)

    def refusal(self, group: Group) -> str | None:
        """Say where a sum of products may leave int32."""
        depth = self.depth(group)
        if depth > MOST_DEPTH:
            return f"it sums {depth} products, which may leave int32; the most are {MOST_DEPTH}"
        return None

    def gives_float(self, group: Group) -> bool:
        """Say yes."""
        return True


def memory(outer: Outer, **operands: Operand) -> dict[str, Any]:
    """Return batch and heads of a spec, and shape and strides of its operands, by their names."""
    fields: dict[str, Any] = {"batch": outer.batch, "heads": outer.heads}
    for name, operand in operands.items():
        fields[f"{name}_shape"] = dataflow.shape(operand.tensor)
        fields[f"{name}_strides"] = operand.strides
    return fields


def scaling(m: np.ndarray, xs: Sequence[QParams], y: QParams | None) -> Constants:
    """Return the constants that scale sums: multiplier, zero points, bounds of the result."""
    return {
        "m": m,
        "z": np.append(zero_points(*xs), np.int32(y.zero_point if y else 0)),
        "clamp": clamp_steps(None, y),
    }
