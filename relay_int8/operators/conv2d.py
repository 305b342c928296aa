"""Two-dimensional convolution, grouped, dilated and depthwise too."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.operators.depthwise_program import depthwise_products, pays
from relay_int8.operators.images import EXACT_F32, rows, windows
from relay_int8.operators.linear import Linear
from relay_int8.operators.operator import Array
from schedules.spec import Conv2d as Spec

CACHED = 2**16  # results of a depthwise layer that are computed at a time: 256 KiB
PATCH_BYTES = 2**20  # size of the patches that are multiplied at a time
FEWEST_PATCHES = 256  # patches multiplied at a time, whatever their size: a matrix of them


class Conv2d(Linear):
    """(n, c, h, w) by weights (oc, c / groups, kh, kw)."""

    kind = "conv2d"
    weight_axis = 0
    channel_axis = 1

    def is_worth_alone(self, group: Group) -> bool:
        """Whether a result is a sum of products.

        Of a batch norm that follows no convolution it is one: between floats it would be two more
        roundings, of a tensor that it may magnify, for nothing.
        """
        weight = group.weight
        if weight is None or math.prod(weight.values.shape[1:]) > 1:
            return True
        return not self.groups(group) == len(weight.values) > 1

    def refusal(self, group: Group) -> str | None:
        """Say where weights are not constant, or layouts not NCHW and OIHW."""
        attrs = group.root.attrs
        if group.weight is None:
            return "its weights are not constant"
        if (attrs.data_layout, attrs.kernel_layout) != ("NCHW", "OIHW"):
            return f"its layout is {attrs.data_layout} / {attrs.kernel_layout}, not NCHW / OIHW"
        return None

    def groups(self, group: Group) -> int:
        """Return those of the operator."""
        return int(group.root.attrs.groups)

    def fields(self, group: Group) -> dict[str, Any]:
        """Return sizes, strides, padding, dilation, groups."""
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

    def spec(self, group: Group, **types: Any) -> Spec:
        """Return the spec."""
        return Spec(**self.fields(group), **types)

    def addend(self, bias: np.ndarray) -> np.ndarray:
        """Put channels on the third axis from the end."""
        return bias.reshape(-1, 1, 1)

    def by_input(self, group: Group, w: np.ndarray) -> np.ndarray:
        """Take groups apart: each reads channels of its own."""
        groups = self.groups(group)
        split = w.reshape(groups, len(w) // groups, w.shape[1], -1)
        return np.moveaxis(split, 2, 1).reshape(groups * w.shape[1], -1)

    def divided_by_input(self, group: Group, w: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Take groups apart: each reads channels of its own."""
        groups = self.groups(group)
        split = w.reshape(groups, len(w) // groups, *w.shape[1:])
        divided: Array = split / factors.reshape(groups, 1, w.shape[1], 1, 1)
        return divided.reshape(w.shape)

    def products(self, group: Group, x: Array, w: Array) -> Array:
        """Return (n, oc, oh, ow) of rows (n, ic, h, w)."""
        return self._products(group, x, w, np.float64)

    def integer_products(self, group: Group, x: Array, w: Array, largest: float) -> Array:
        """Return (n, oc, oh, ow) of rows (n, ic, h, w); nine taps of depthwise layers are exact."""
        exact = largest < EXACT_F32
        fields, (oh, ow) = self.fields(group), dataflow.shape(group.members[0])[2:]
        if exact and pays(fields, (oh, ow)):
            images = rows(x, dataflow.shape(group.inputs[0]))
            return depthwise_products(images, w, fields, (oh, ow))
        return self._products(group, x, w, np.float32 if exact else np.float64)

    def _products(self, group: Group, x: Array, w: Array, dtype: type) -> Array:
        fields = self.fields(group)
        groups = fields["groups"]
        by_group: Array = w.reshape(groups, len(w) // groups, -1).astype(dtype, copy=False)
        if _is_pointwise(fields):
            return _pointwise(rows(x, dataflow.shape(group.inputs[0])), by_group)
        taps = self._taps(group, x)
        if groups == taps.shape[1] == len(w):
            return _depthwise(taps, w)
        return _grouped(taps, by_group)

    def positions(self, group: Group) -> int:
        """Return oh * ow."""
        return math.prod(dataflow.shape(group.members[0])[2:])

    def sampled_patches(self, group: Group, x: Array, positions: Array) -> Array:
        """Return (groups, k, len(positions)) of n rows of images."""
        fields, (oh, ow) = self.fields(group), dataflow.shape(group.members[0])[2:]
        taps = self._taps(group, x)
        image, row, column = np.unravel_index(positions, (len(taps), oh, ow))
        sampled = taps[image, :, row, column].reshape(len(positions), fields["groups"], -1)
        return np.ascontiguousarray(sampled.transpose(1, 2, 0))

    def patch_sums(self, group: Group, x: Array) -> Array:
        """Return float64 (groups, k): the patches of the sum of all rows, summed."""
        images = rows(x, dataflow.shape(group.inputs[0]))
        total = images[:1].astype(np.float64)
        for image in images[1:]:  # faster than a float64 sum along the first axis
            total += image
        fields, (oh, ow) = self.fields(group), dataflow.shape(group.members[0])[2:]
        (kh, kw), (down, right) = fields["kernel"], fields["strides"]
        step = fields["dilation"][0]
        height = (oh - 1) * down + (kh - 1) * step + 1
        lines = fields | {"kernel": (1, kw), "strides": (1, right)}
        taps = windows(total, lines, (height, ow), 0.0)[0, :, :, :, 0]
        by_row = np.stack([taps[..., j].sum(axis=2) for j in range(kw)], axis=-1)
        sums = [by_row[:, i * step :: down][:, :oh].sum(axis=1) for i in range(kh)]
        return np.stack(sums, axis=1).reshape(fields["groups"], -1)

    def _taps(self, group: Group, x: Array) -> Array:
        """Return a view (n, c, oh, ow, kh, kw)."""
        x = rows(x, dataflow.shape(group.inputs[0]))
        oh, ow = dataflow.shape(group.members[0])[2:]
        return windows(x, self.fields(group), (oh, ow), 0.0)

    def patches(self, group: Group, x: Array) -> Array:
        """Return (n, groups, k, positions) of n rows of images."""
        x = rows(x, dataflow.shape(group.inputs[0]))
        fields = self.fields(group)
        oh, ow = dataflow.shape(group.members[0])[2:]
        groups = fields["groups"]
        if _is_pointwise(fields):
            return x.reshape(len(x), groups, -1, oh * ow)
        taps = self._taps(group, x).transpose(0, 1, 4, 5, 2, 3)
        return taps.reshape(len(x), groups, -1, oh * ow)


def _is_pointwise(fields: Mapping[str, Any]) -> bool:
    """Say whether an output position multiplies one input position, of more than one channel."""
    one = fields["kernel"] == fields["strides"] == (1, 1)
    return one and not any(fields["padding"]) and fields["groups"] < fields["in_channels"]


def _pointwise(x: Array, w: Array) -> Array:
    """Return float32 (n, oc, oh, ow): products of whole images, whose patches are their pixels.

    Parameters
    ----------
    x
        (n, c, oh, ow).
    w
        (groups, channels of a group, k), of the type that sums have.
    """
    n, _, oh, ow = x.shape
    y = np.empty((n, w.shape[0], w.shape[1], oh * ow), np.float32)
    for image, products in zip(x, y, strict=True):
        columns = image.reshape(len(w), -1, oh * ow).astype(w.dtype, copy=False)
        products[:] = np.matmul(w, columns)
    return y.reshape(n, -1, oh, ow)


def _grouped(taps: Array, w: Array) -> Array:
    """Return float32 (n, oc, oh, ow): products of as many patches as the cache holds, row by row.

    Parameters
    ----------
    taps
        (n, c, oh, ow, kh, kw), a view.
    w
        (groups, channels of a group, k), of the type that sums have.
    """
    n, c, oh, ow, kh, kw = taps.shape
    k = c * kh * kw
    cached = PATCH_BYTES // (k * ow * w.itemsize)
    size = min(oh, max(cached, -(-FEWEST_PATCHES // ow)))
    buffer = np.empty(k * size * ow, w.dtype)
    y = np.empty((n, w.shape[0] * w.shape[1], oh, ow), np.float32)
    for image, first in itertools.product(range(n), range(0, oh, size)):
        block = slice(first, min(first + size, oh))
        count = block.stop - first
        patches = buffer[: k * count * ow].reshape(c, kh, kw, count, ow)
        np.copyto(patches, taps[image, :, block].transpose(0, 3, 4, 1, 2))
        products = np.matmul(w, patches.reshape(len(w), -1, count * ow))
        y[image, :, block] = products.reshape(-1, count, ow)
    return y


def _depthwise(taps: Array, w: Array) -> Array:
    """Return float32 (n, c, oh, ow): tap after tap, for as many channels as the cache holds."""
    n, c, oh, ow, kh, kw = taps.shape
    y = np.empty((n, c, oh, ow), np.float32)
    size = max(1, CACHED // (oh * ow))
    product_of_tap = np.empty((min(size, c), oh, ow), np.float32)
    for image, first in np.ndindex(n, -(-c // size)):
        channels = slice(first * size, (first + 1) * size)
        sums = y[image, channels]
        products = product_of_tap[: len(sums)]
        np.multiply(taps[image, channels, ..., 0, 0], w[channels, 0, 0, 0, None, None], out=sums)
        for i, j in list(np.ndindex(kh, kw))[1:]:
            tap = taps[image, channels, ..., i, j]
            np.multiply(tap, w[channels, 0, i, j, None, None], out=products)
            sums += products
    return y


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values)
