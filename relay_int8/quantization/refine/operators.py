"""The float operators of a group in NumPy, for any number of images at a time.

Images stand along the first axis. A tensor that has one row an image, (1, ...), is (n, ...) for n
images; one of any other shape, as a channel shuffle makes, is (n, *shape). Operators with weights
take such tensors as they are; others that would mix the images are computed one image at a time.

float32 tensors, sums of products in float64: their order is the library's, and differs with the CPU
and its threads, but not in what is left of them in float32. So a search, which runs these again and
again, finds the same everywhere. Nothing that a network computes in the end comes from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from relay_int8.graph import dataflow
from relay_int8.graph.geometry import PADS, conv2d_fields, pool2d_counts, pool2d_fields
from relay_int8.graph.groups import (
    AFFINE,
    INTERPOLATE,
    PAIRS,
    SAMPLE,
    Clip,
    Group,
    Leaky,
    pad_value,
)
from relay_int8.graph.spec_calls import spec_of
from relay_int8.numerics.interpolation import axis_pairs
from relay_int8.numerics.unary import UNARY
from schedules.reference import reference

Array = npt.NDArray[Any]
Pair = tuple[int, int]


def evaluator(group: Group) -> Callable[[Group, Sequence[Array]], Array] | None:
    """Return what computes ``group`` from its inputs, or None where NumPy has nothing for it."""
    if group.kind in UNARY:
        return lambda group, xs: UNARY[group.kind](xs[0].astype(np.float64)).astype(np.float32)
    return _OPERATORS.get(group.kind)


def is_batched(group: Group) -> bool:
    """Return whether the operator of ``group`` computes the images along the first axis at once."""
    if group.kind == "reshape":
        return True
    shapes = [dataflow.shape(var) for var in (*group.inputs, *group.floats, group.output)]
    if any(shape[:1] != (1,) for shape in shapes):
        return False
    rank = len(shapes[-1])
    if group.kind in PAIRS:
        return all(len(shape) == rank for shape in shapes)
    if group.kind == "transpose":
        return _axes(group)[0] == 0
    if group.kind == "concat":
        constants = any(
            dataflow.constant(part) is not None for part in dataflow.arguments(group.root)
        )
        return int(group.root.attrs.axis) % rank != 0 and not constants
    return True


def batched(images: Sequence[Array], shape: Sequence[int]) -> Array:
    """Return tensors of ``shape``, one an image, with the images along the first axis."""
    return np.stack(images).reshape(len(images), *tail(shape))


def tail(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the extents of one image of a tensor whose images stand along the first axis."""
    return tuple(shape[1:]) if tuple(shape[:1]) == (1,) else tuple(shape)


def rows(x: Array, shape: Sequence[int]) -> Array:
    """Return a tensor of many images with the rank of ``shape``: (n * shape[0], ...).

    A vector has an axis of images put in front: (n, k).
    """
    return x.reshape(-1, *(shape[1:] if len(shape) > 1 else shape))


def linear(group: Group, xs: Sequence[Array], w: Array, b: Array | None) -> Array:
    """Return a convolution or dense layer with other weights, its epilogue included.

    Parameters
    ----------
    xs
        Its input, and the residual where it adds one; images along the first axis.
    w
        Shaped as ``group.weight.values``.
    b
        (channels,), or None.
    """
    x = rows(xs[0], dataflow.shape(group.inputs[0]))
    y = conv2d(group, x, w) if group.kind == "conv2d" else product(x, w)
    if b is not None:
        y += b.reshape(-1, 1, 1) if group.kind == "conv2d" else b
    if group.residual:
        y += xs[1].reshape(y.shape)
    y = activate(group.activation, y)
    return y.reshape(len(xs[0]), *tail(dataflow.shape(group.output)))


def conv2d(group: Group, x: Array, w: Array) -> Array:
    """Return the products alone of rows (n, ic, h, w): (n, oc, oh, ow)."""
    fields = conv2d_fields(group)
    groups, (kh, kw) = fields["groups"], fields["kernel"]
    oh, ow = dataflow.shape(group.members[0])[2:]
    if groups == fields["in_channels"] == fields["out_channels"]:
        windows = _windows(x, fields, (oh, ow), 0.0)
        y = np.zeros((len(x), len(w), oh, ow), np.float32)
        for i, j in np.ndindex(kh, kw):
            y += windows[..., i, j] * w[:, 0, i, j, None, None]
        return y
    columns = patches(group, x)
    w_rows = w.reshape(groups, len(w) // groups, -1)
    return product(w_rows[None], columns).reshape(len(x), len(w), oh, ow)


def product(a: Array, b: Array) -> Array:
    """Return the matrix product, summed in float64 and rounded to float32."""
    y: Array = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
    return y


def patches(group: Group, x: Array) -> Array:
    """Return what each output position multiplies: (n, groups, k, positions), n rows of images.

    k runs over the channels of a group and the taps, as ``weight.reshape(oc, -1)`` has them; of a
    dense layer (1, 1, k, rows).
    """
    if group.kind == "dense":
        return x.reshape(-1, dataflow.shape(group.inputs[0])[-1]).T[None, None]
    x = rows(x, dataflow.shape(group.inputs[0]))
    fields = conv2d_fields(group)
    oh, ow = dataflow.shape(group.members[0])[2:]
    groups = fields["groups"]
    if fields["kernel"] == (1, 1) and fields["strides"] == (1, 1) and not any(fields["padding"]):
        return x.reshape(len(x), groups, -1, oh * ow)
    windows = _windows(x, fields, (oh, ow), 0.0).transpose(0, 1, 4, 5, 2, 3)
    return windows.reshape(len(x), groups, -1, oh * ow)


def activate(activation: Clip | Leaky | None, y: Array) -> Array:
    """Return the activation of ``y``, channels on axis 1; ``y`` itself may be overwritten."""
    if isinstance(activation, Clip):
        return np.clip(y, np.float32(activation.low), np.float32(activation.high), out=y)
    if isinstance(activation, Leaky):
        slope = activation.slope.astype(np.float32).reshape(-1, *(1,) * (y.ndim - 2))
        return np.where(y < 0, y * slope, y)
    return y


def _windows(x: Array, fields: Mapping[str, Any], out_size: Pair, fill: float) -> Array:
    """Return a view (n, c, oh, ow, kh, kw) of ``x`` padded with ``fill``."""
    kernel, strides, padding = fields["kernel"], fields["strides"], fields["padding"]
    dilation = fields.get("dilation", (1, 1))
    spans = [(size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True)]
    sides = []
    for axis in (0, 1):
        needed = (out_size[axis] - 1) * strides[axis] + spans[axis]
        after = max(needed - padding[axis] - x.shape[2 + axis], 0)
        sides.append((padding[axis], after))
    if any(any(side) for side in sides):
        x = np.pad(x, ((0, 0), (0, 0), *sides), constant_values=fill)
    view = sliding_window_view(x, spans, axis=(2, 3))
    view = view[:, :, :: strides[0], :: strides[1], :: dilation[0], :: dilation[1]]
    return view[:, :, : out_size[0], : out_size[1]]


def _pool(group: Group, xs: Sequence[Array]) -> Array:
    fields = pool2d_fields(group)
    biggest = fields["reduce"] == "max"
    view = _windows(xs[0], fields, fields["out_size"], -np.inf if biggest else 0.0)
    taps = [view[..., i, j] for i, j in np.ndindex(view.shape[4:])]
    if biggest:
        largest: Array = np.maximum.reduce(taps)
        return largest
    if view.shape[2:4] == (1, 1):
        sums = view.sum(axis=(4, 5), dtype=np.float64).astype(np.float32)
    else:
        sums = taps[0].copy()
        for tap in taps[1:]:
            sums += tap
    means: Array = sums / pool2d_counts(group).astype(np.float32)
    return activate(group.activation, means)


def _operands(group: Group, xs: Sequence[Array]) -> list[Array]:
    """Return the activations and constants of an operator in the order of its arguments."""
    arrays = iter(xs)
    return [
        array if (array := dataflow.constant(argument)) is not None else next(arrays)
        for argument in dataflow.arguments(group.root)
    ]


def _binary(group: Group, xs: Sequence[Array]) -> Array:
    operands = _operands(group, xs)
    y = operands[0] + operands[1] if group.kind == "add" else operands[0] * operands[1]
    return activate(group.activation, y)


def _concat(group: Group, xs: Sequence[Array]) -> Array:
    return np.concatenate(_operands(group, xs), axis=int(group.root.attrs.axis))


def _reshape(group: Group, xs: Sequence[Array]) -> Array:
    return xs[0].reshape(len(xs[0]), *tail(dataflow.shape(group.output)))


def _transpose(group: Group, xs: Sequence[Array]) -> Array:
    return np.transpose(xs[0], _axes(group))


def _axes(group: Group) -> list[int]:
    """Return the axes of a transpose, none of them negative."""
    rank, axes = len(dataflow.shape(group.root)), group.root.attrs.axes
    return [int(axis) % rank for axis in axes] if axes else list(reversed(range(rank)))


def _slice(group: Group, xs: Sequence[Array]) -> Array:
    begins, steps = dataflow.slice_steps(group.root)
    y = xs[0]
    extents = dataflow.shape(group.inputs[0])
    ends = zip(begins, steps, extents, dataflow.shape(group.output), strict=True)
    for axis, (begin, step, extent, size) in enumerate(ends):
        if size != extent:
            y = np.take(y, begin + step * np.arange(size), axis=axis)
    return y


def _shuffle(group: Group, xs: Sequence[Array]) -> Array:
    assert group.shuffle is not None
    return group.shuffle(xs[0])


def _pad(group: Group, xs: Sequence[Array]) -> Array:
    width = [int(size) for size in group.root.attrs.pad_width]
    move = PADS[group.root.attrs.pad_mode]
    widths = list(zip(width[::2], width[1::2], strict=True))
    if move == "pad":
        return np.pad(xs[0], widths, constant_values=pad_value(group))
    mode: Any = move
    return np.pad(xs[0], widths, mode=mode)


def _resize(group: Group, xs: Sequence[Array]) -> Array:
    y = xs[0]
    for axis, size in zip((2, 3), dataflow.shape(group.output)[2:], strict=True):
        y = np.take(y, np.arange(size) * y.shape[axis] // size, axis=axis)
    return y


def _sample(group: Group, xs: Sequence[Array]) -> Array:
    spec = spec_of(group.root)
    assert spec is not None
    return reference(spec, dict(zip(spec.tensors, xs, strict=True)), {})


def _interpolate(group: Group, xs: Sequence[Array]) -> Array:
    y, mode = xs[0], str(group.root.attrs.coordinate_transformation_mode)
    for axis, out in zip((2, 3), dataflow.shape(group.output)[2:], strict=True):
        first, second, shares = zip(*axis_pairs(y.shape[axis], out, mode), strict=True)
        share = np.array(shares, np.float32).reshape(-1, *(1,) * (3 - axis))
        y = y.take(first, axis) * (1 - share) + y.take(second, axis) * share
    return y


def _activation(group: Group, xs: Sequence[Array]) -> Array:
    return activate(group.activation, xs[0].copy())


def _affine(group: Group, xs: Sequence[Array]) -> Array:
    assert group.affine is not None
    return activate(group.activation, group.affine(xs[0]).astype(np.float32))


def _function(group: Group, xs: Sequence[Array]) -> Array:
    assert group.function is not None
    return group.function(xs[0].astype(np.float64)).astype(np.float32)


_OPERATORS: dict[str, Callable[[Group, Sequence[Array]], Array]] = {
    "add": _binary,
    "mul": _binary,
    "concat": _concat,
    "max_pool2d": _pool,
    "avg_pool2d": _pool,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "shuffle": _shuffle,
    "pad": _pad,
    "resize": _resize,
    INTERPOLATE: _interpolate,
    "activation": _activation,
    "function": _function,
    AFFINE: _affine,
    SAMPLE: _sample,
}
