"""Matrix product of two activations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relay_int8.graph.group import Group
from relay_int8.graph.matrix_products import MatrixProduct
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.activation_product import ActivationProduct, memory, scaling
from relay_int8.operators.kernel import F32, Kernel, clamp
from schedules.spec import DType
from schedules.spec import Product as Spec


class Product(ActivationProduct):
    """``a b'``, any number of matrices of each."""

    kind = "product"

    def depth(self, group: Group) -> int:
        """Return how many products its sums have."""
        return _product(group).depth

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return int32 sums, one multiplier for all."""
        a, b = xs
        s_y = np.float32(1) if y is None else y.scale
        constants = scaling(qparams.product_multiplier(a.scale, b.scale, s_y), xs, y)
        return _spec(group, a.dtype, b.dtype, y.dtype if y else F32), constants

    def float_kernel(self, group: Group) -> Kernel | None:
        """Return float32 sums."""
        return _spec(group, F32, F32, F32), {"clamp": clamp(None).astype(np.float32)}


def _spec(group: Group, a: DType, b: DType, y: DType) -> Spec:
    product = _product(group)
    return Spec(
        rows=product.rows,
        columns=product.columns,
        depth=product.depth,
        **memory(product.outer, a=product.a, b=product.b, y=product.y),
        a=a,
        b=b,
        y=y,
    )


def _product(group: Group) -> MatrixProduct:
    assert group.product is not None
    return group.product
