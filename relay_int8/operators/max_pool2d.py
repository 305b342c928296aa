"""Max pooling of images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relay_int8.graph.group import Group
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.kernel import F32, Kernel
from relay_int8.operators.operator import Array
from relay_int8.operators.pool import Pool, tap_list
from schedules.spec import Pool2d


class MaxPool2d(Pool):
    """Integers are moved; padding never wins."""

    kind = "max_pool2d"
    reduce = "max"
    shares_scale = True

    def keeps_range(self, group: Group) -> bool:
        """Say yes: the largest of some integers is one of them."""
        return True

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return a kernel without constants."""
        assert y is not None
        return Pool2d(**self.fields(group), x=xs[0].dtype, y=y.dtype), {}

    def float_kernel(self, group: Group) -> Kernel | None:
        """Return a kernel without constants."""
        return Pool2d(**self.fields(group), x=F32, y=F32), {}

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return it, images along the first axis."""
        largest: Array = np.maximum.reduce(tap_list(self.taps(group, xs[0], -np.inf)))
        return largest
