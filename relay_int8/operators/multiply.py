"""Product of two tensors; also a gate, broadcast over the image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.kernel import Kernel
from relay_int8.operators.operator import Array
from relay_int8.operators.pair import Pair


class Multiply(Pair):
    """``a * b``."""

    kind = "mul"
    arithmetic = "mul"

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return a kernel with one multiplier for the product of both."""
        assert y is not None
        m = qparams.product_multiplier(xs[0].scale, xs[1].scale, y.scale)
        return self.binary(group, xs, y, {"m": m})

    def scaled_inputs(self, group: Group) -> Sequence[relax.Var]:
        """Return what a gate multiplies; of two tensors of one shape neither is known as gate."""
        if self.refusal(group):
            return ()
        gated, gate = group.inputs
        return () if dataflow.shape(gate) == dataflow.shape(gated) else (gated,)

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return the product."""
        return self.computed(group, xs, np.multiply)
