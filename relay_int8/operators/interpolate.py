"""Bilinear resize of images."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import INTERPOLATE, Group
from relay_int8.numerics import qparams
from relay_int8.numerics.interpolation import COORDINATES, UNIT, axis_lerps, axis_pairs, axis_taps
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.kernel import Kernel, zero_points
from relay_int8.operators.operator import Array, Holds, Operator
from schedules.spec import Bilinear
from schedules.spec import Interpolate as Spec


class Interpolate(Operator):
    """Four pixels, weights of 11 bits along each axis."""

    kind = INTERPOLATE
    requantizes = True
    in_numpy = True

    def refusal(self, group: Group) -> str | None:
        """Say where coordinates are no fractions."""
        attrs = group.root.attrs
        if attrs.layout != "NCHW":
            return f"its layout is {attrs.layout}, not NCHW"
        coordinates = attrs.coordinate_transformation_mode
        return None if coordinates in COORDINATES else f"{coordinates} coordinates"

    def passes_sign(self, group: Group, known: Container[relax.Var], holds: Holds) -> bool:
        """Look at its input."""
        return bool(group.inputs) and all(var in known for var in group.inputs)

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return a kernel with two small tables of pixels and weights."""
        assert y is not None
        spec = Spec(**_sizes(group), x=xs[0].dtype, y=y.dtype)
        mode, (out_height, out_width) = _mode(group), spec.out_size
        return spec, {
            "rows": axis_taps(spec.height, out_height, mode),
            "columns": axis_taps(spec.width, out_width, mode),
            "m": qparams.average_multipliers(xs[0].scale, y.scale, np.array([UNIT**2])),
            "z": zero_points(xs[0], y),
            "clamp": y.clamp,
        }

    def float_kernel(self, group: Group) -> Kernel:
        """Return a kernel with the same pixels, and weights of float32."""
        spec = Bilinear(**_sizes(group))
        mode, (out_height, out_width) = _mode(group), spec.out_size
        rows, row_weights = axis_lerps(spec.height, out_height, mode)
        columns, column_weights = axis_lerps(spec.width, out_width, mode)
        return spec, {
            "rows": rows,
            "row_weights": row_weights,
            "columns": columns,
            "column_weights": column_weights,
        }

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return it, images along the first axis."""
        y, mode = xs[0], _mode(group)
        for axis, out in zip((2, 3), dataflow.shape(group.output)[2:], strict=True):
            first, second, shares = zip(*axis_pairs(y.shape[axis], out, mode), strict=True)
            share = np.array(shares, np.float32).reshape(-1, *(1,) * (3 - axis))
            y = y.take(first, axis) * (1 - share) + y.take(second, axis) * share
        return y


def _sizes(group: Group) -> dict[str, Any]:
    """Return the fields that specs of integers and of floats share."""
    batch, channels, height, width = dataflow.shape(group.inputs[0])
    size = {"batch": batch, "channels": channels, "height": height, "width": width}
    return size | {"out_size": tuple(dataflow.shape(group.root)[2:])}


def _mode(group: Group) -> str:
    return str(group.root.attrs.coordinate_transformation_mode)
