"""Matrix product with constant weights; leading axes are rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.operators.images import integer_product, product
from relay_int8.operators.linear import Linear
from relay_int8.operators.operator import Array
from schedules.spec import Dense as Spec


class Dense(Linear):
    """(..., k) by weights (k, n)."""

    kind = "dense"
    weight_axis = 1
    channel_axis = -1

    def refusal(self, group: Group) -> str | None:
        """Say where the second operand is no constant matrix."""
        if group.weight is None and len(group.inputs) < len(group.root.args):
            return (
                "its first operand is a constant; only a constant second one, weights, is supported"
            )
        if group.weight is None:
            return "it multiplies two activations that are no matrices of one batch"
        if group.weight.values.ndim != 2:
            return f"its weights have {group.weight.values.ndim} dimensions, not 2"
        return None

    def fields(self, group: Group) -> dict[str, Any]:
        """Return rows, columns and the reduction."""
        assert group.weight is not None
        k, n = group.weight.values.shape
        return {"rows": math.prod(dataflow.shape(group.inputs[0])[:-1]), "n": n, "k": k}

    def spec(self, group: Group, **types: Any) -> Spec:
        """Return the spec."""
        return Spec(**self.fields(group), **types)

    def by_input(self, group: Group, w: np.ndarray) -> np.ndarray:
        """Take the rows of the weights."""
        return w

    def divided_by_input(self, group: Group, w: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Take the rows of the weights."""
        quotient: Array = w / factors[:, None]
        return quotient

    def products(self, group: Group, x: Array, w: Array) -> Array:
        """Return (..., n)."""
        return product(x, w)

    def integer_products(self, group: Group, x: Array, w: Array, largest: float) -> Array:
        """Return (..., n)."""
        return integer_product(x, w, largest)

    def positions(self, group: Group) -> int:
        """Return the rows of an image."""
        return math.prod(dataflow.shape(group.inputs[0])[:-1])

    def sampled_patches(self, group: Group, x: Array, positions: Array) -> Array:
        """Return (1, k, len(positions))."""
        sampled = x.reshape(-1, dataflow.shape(group.inputs[0])[-1])[positions]
        return np.ascontiguousarray(sampled.T[None])

    def patch_sums(self, group: Group, x: Array) -> Array:
        """Return float64 (1, k)."""
        sums: Array = x.reshape(-1, dataflow.shape(group.inputs[0])[-1]).sum(
            axis=0, dtype=np.float64
        )
        return sums[None]

    def patches(self, group: Group, x: Array) -> Array:
        """Return (1, 1, k, rows)."""
        return x.reshape(-1, dataflow.shape(group.inputs[0])[-1]).T[None, None]
