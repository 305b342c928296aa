"""Nearest-neighbour resize of images."""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.operators.channels import keeps_channels
from relay_int8.operators.move import Move
from relay_int8.operators.operator import Array, Holds


class Resize(Move):
    """Output pixel i is input pixel ``floor(i * n / m)``."""

    kind = "resize"

    def refusal(self, group: Group) -> str | None:
        """Say where coordinates and rounding do not come to ``floor(i * n / m)``."""
        attrs = group.root.attrs
        if attrs.layout != "NCHW":
            return f"its layout is {attrs.layout}, not NCHW"
        if attrs.method != "nearest_neighbor":
            return f"{attrs.method} interpolation; only nearest and linear are supported"
        coordinates, rounding = attrs.coordinate_transformation_mode, attrs.rounding_method
        if (coordinates, rounding) == ("asymmetric", "floor"):
            return None
        (_, _, h, w), (_, _, oh, ow) = (dataflow.shape(x) for x in (group.inputs[0], group.root))
        whole = oh % h == 0 and ow % w == 0
        if coordinates == "half_pixel" and rounding.startswith("round") and whole:
            return None  # rounds to the same pixel where sizes are multiples
        return f"{coordinates} coordinates with {rounding}"

    def passes_sign(self, group: Group, known: Container[relax.Var], holds: Holds) -> bool:
        """Say no for cubic interpolation, which falls below the smallest value beside an edge."""
        return group.root.attrs.method != "cubic" and super().passes_sign(group, known, holds)

    def scaled_inputs(self, group: Group) -> Sequence[relax.Var]:
        """Return its input where channels stay: they are resized apart."""
        return group.inputs if keeps_channels(group) else ()

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return it, images along the first axis."""
        y = xs[0]
        for axis, size in zip((2, 3), dataflow.shape(group.output)[2:], strict=True):
            y = np.take(y, np.arange(size) * y.shape[axis] // size, axis=axis)
        return y
