"""Matrix product of two activations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relay_int8.graph import dataflow
from relay_int8.graph.groups import Group
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.kernel import F32, Kernel, clamp, clamp_steps, zero_points
from relay_int8.operators.operator import Operator
from schedules.spec import DType
from schedules.spec import Product as Spec
from schedules.spec.product import MOST_DEPTH


class Product(Operator):
    """``a b'``, any number of matrices of each."""

    kind = "product"
    pays_alone = True
    requantizes = True

    def refusal(self, group: Group) -> str | None:
        """Say where a sum of products may leave int32."""
        assert group.product is not None
        return too_deep(group.product.depth)

    def gives_float(self, group: Group) -> bool:
        """Say yes."""
        return True

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return int32 sums, one multiplier for all."""
        a, b = xs
        s_y = np.float32(1) if y is None else y.scale
        constants = {
            "m": qparams.product_multiplier(a.scale, b.scale, s_y),
            "z": np.append(zero_points(a, b), np.int32(y.zero_point if y else 0)),
            "clamp": clamp_steps(None, y),
        }
        return _spec(group, a.dtype, b.dtype, y.dtype if y else F32), constants

    def float_kernel(self, group: Group) -> Kernel | None:
        """Return float32 sums."""
        return _spec(group, F32, F32, F32), {"clamp": clamp(None).astype(np.float32)}


def too_deep(depth: int) -> str | None:
    """Say why ``depth`` products of bytes may not be summed, or None."""
    if depth > MOST_DEPTH:
        return f"it sums {depth} products, which may leave int32; the most are {MOST_DEPTH}"
    return None


def _spec(group: Group, a: DType, b: DType, y: DType) -> Spec:
    found = group.product
    assert found is not None
    return Spec(
        batch=found.outer.batch,
        heads=found.outer.heads,
        rows=found.rows,
        columns=found.columns,
        depth=found.depth,
        a_shape=dataflow.shape(found.a.tensor),
        b_shape=dataflow.shape(found.b.tensor),
        y_shape=dataflow.shape(found.y.tensor),
        a_strides=found.a.strides,
        b_strides=found.b.strides,
        y_strides=found.y.strides,
        a=a,
        b=b,
        y=y,
    )
