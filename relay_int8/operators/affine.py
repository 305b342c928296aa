"""``a * x + b`` with one constant a channel: a depthwise convolution of 1x1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relay_int8.graph import dataflow
from relay_int8.graph.group import AFFINE, Group
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.images import activate
from relay_int8.operators.kernel import Kernel, clamp_steps
from relay_int8.operators.operator import Array, Operator
from schedules.spec import Conv2d


class Affine(Operator):
    """Batch norms that no convolution takes, arithmetic with constants of channels."""

    kind = AFFINE
    requantizes = True
    prepares_input = True
    in_numpy = True

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return a convolution of each channel by one weight."""
        assert group.affine is not None and y is not None
        x, shift = xs[0], group.affine.shift
        reals = group.affine.scale.reshape(-1, 1, 1, 1)
        s_w = qparams.weight_scales(reals, shift, x.scale)
        batch, channels, height, width = dataflow.shape(group.root)
        spec = Conv2d(
            batch=batch,
            in_channels=channels,
            height=height,
            width=width,
            out_channels=channels,
            kernel=(1, 1),
            groups=channels,
            x=x.dtype,
            y=y.dtype,
        )
        return spec, {
            "w": qparams.quantize_weight(reals, s_w),
            "bias": qparams.quantize_bias(shift, x.scale, s_w),
            "m": qparams.multiplier(x.scale, s_w, y.scale),
            "z": np.array([x.zero_point, y.zero_point, 0], np.int32),
            "clamp": clamp_steps(group.activation, y),
        }

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return it, images along the first axis."""
        assert group.affine is not None
        return activate(group.activation, group.affine(xs[0]).astype(np.float32))
