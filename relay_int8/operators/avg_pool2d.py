"""Average pooling of images, global pooling too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relay_int8.graph.group import Group
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.numerics.window_counts import window_counts
from relay_int8.operators.images import activate
from relay_int8.operators.kernel import F32, Kernel, clamp_steps, zero_points
from relay_int8.operators.operator import Array
from relay_int8.operators.pool import Pool, tap_list
from schedules.spec import Pool2d


class AvgPool2d(Pool):
    """The sum of a window by what it is divided by at that position."""

    kind = "avg_pool2d"
    reduce = "avg"
    requantizes = True

    def refusal(self, group: Group) -> str | None:
        """Say where windows are dilated."""
        if any(int(extent) != 1 for extent in group.root.attrs.dilation):
            return "average pooling with dilation"
        return super().refusal(group)

    def counts(self, group: Group) -> np.ndarray:
        """Return int64 (oh, ow): what each window is divided by."""
        fields, attrs = self.fields(group), group.root.attrs
        top, left, bottom, right = map(int, attrs.padding)
        return window_counts(
            (fields["height"], fields["width"]),
            fields["out_size"],
            fields["kernel"],
            strides=fields["strides"],
            dilation=fields["dilation"],
            padding=(top, left, bottom, right),
            count_include_pad=bool(attrs.count_include_pad),
        )

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return a kernel with one multiplier for each output position."""
        assert y is not None
        constants = {
            "m": qparams.average_multipliers(xs[0].scale, y.scale, self.counts(group)),
            "z": zero_points(xs[0], y),
            "clamp": clamp_steps(group.activation, y),
        }
        return Pool2d(**self.fields(group), x=xs[0].dtype, y=y.dtype), constants

    def float_kernel(self, group: Group) -> Kernel | None:
        """Return None with an activation: the float32 kernel has no clamp."""
        if group.activation is not None:
            return None
        m = (1.0 / self.counts(group).astype(np.float64)).astype(np.float32)
        return Pool2d(**self.fields(group), x=F32, y=F32), {"m": m}

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return it, images along the first axis."""
        taps = self.taps(group, xs[0], 0.0)
        if taps.shape[2:4] == (1, 1):
            sums = taps.sum(axis=(4, 5), dtype=np.float64).astype(np.float32)
        else:
            first, *others = tap_list(taps)
            sums = first.copy()
            for tap in others:
                sums += tap
        means: Array = sums / self.counts(group).astype(np.float32)
        return activate(group.activation, means)
