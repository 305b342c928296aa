"""The fields of a spec that follow from shapes and attributes, integer and float alike."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from relay_int8.graph import dataflow
from relay_int8.graph.groups import Group
from relay_int8.numerics.window_counts import window_counts

Fields = dict[str, Any]
PADS = {"constant": "pad", "replicate": "edge", "reflect": "reflect"}
"""Mode of a pad -> the move it is."""


def conv2d_fields(group: Group) -> Fields:
    """Return the fields of ``Conv2d``, types and epilogue left out."""
    assert group.weight is not None
    attrs = group.root.attrs
    batch, channels, height, width = dataflow.shape(group.inputs[0])
    out_channels, _, *kernel = group.weight.values.shape
    return {
        "batch": batch,
        "in_channels": channels,
        "height": height,
        "width": width,
        "out_channels": out_channels,
        "kernel": tuple(kernel),
        "strides": _ints(attrs.strides),
        "padding": _ints(attrs.padding),
        "dilation": _ints(attrs.dilation),
        "groups": int(attrs.groups),
    }


def dense_fields(group: Group) -> Fields:
    """Return the fields of ``Dense``, types and epilogue left out; leading axes become rows."""
    assert group.weight is not None
    k, n = group.weight.values.shape
    return {"rows": math.prod(dataflow.shape(group.inputs[0])[:-1]), "n": n, "k": k}


def pool2d_fields(group: Group) -> Fields:
    """Return the fields of ``Pool2d``, types left out."""
    attrs = group.root.attrs
    batch, channels, height, width = dataflow.shape(group.inputs[0])
    return {
        "reduce": "max" if group.kind == "max_pool2d" else "avg",
        "batch": batch,
        "channels": channels,
        "height": height,
        "width": width,
        "out_size": dataflow.shape(group.root)[2:],
        "kernel": _ints(attrs.pool_size),
        "strides": _ints(attrs.strides),
        "dilation": _ints(attrs.dilation),
        "padding": _ints(attrs.padding)[:2],
    }


def pool2d_counts(group: Group) -> np.ndarray:
    """Return int64 (oh, ow): what each window of an average pooling is divided by."""
    fields, attrs = pool2d_fields(group), group.root.attrs
    top, left, bottom, right = _ints(attrs.padding)
    return window_counts(
        (fields["height"], fields["width"]),
        fields["out_size"],
        fields["kernel"],
        strides=fields["strides"],
        dilation=fields["dilation"],
        padding=(top, left, bottom, right),
        count_include_pad=bool(attrs.count_include_pad),
    )


def interpolate_fields(group: Group) -> Fields:
    """Return the fields of ``Interpolate``, types left out."""
    batch, channels, height, width = dataflow.shape(group.inputs[0])
    return {
        "batch": batch,
        "channels": channels,
        "height": height,
        "width": width,
        "out_size": dataflow.shape(group.root)[2:],
    }


def move_fields(group: Group) -> Fields:
    """Return the fields of ``Move``, type left out."""
    x_shape, y_shape = dataflow.shape(group.inputs[0]), dataflow.shape(group.root)
    fields: Fields = {"move": group.kind, "x_shape": x_shape, "y_shape": y_shape}
    if group.kind == "transpose":
        axes = group.root.attrs.axes
        rank = len(x_shape)
        fields["arguments"] = _ints(axes) if axes else tuple(reversed(range(rank)))
    elif group.kind == "slice":
        begins, steps = dataflow.slice_steps(group.root)
        fields["arguments"] = (*begins, *steps)
    elif group.shuffle is not None:
        parts = group.shuffle
        fields["arguments"] = (*parts.digits, *parts.axes, *parts.joined, *parts.begins)
    elif group.kind == "pad":
        fields["move"] = PADS[group.root.attrs.pad_mode]
        fields["arguments"] = _ints(group.root.attrs.pad_width)[::2]
    return fields


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values)
