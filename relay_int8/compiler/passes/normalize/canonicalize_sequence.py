"""Write networks over sequences, (n, c, l), as networks over images of one row, (n, c, 1, l).

    Before:  y = relu(conv1d(x, w) + b)
    After:   p = relu(conv2d(reshape(x), w') + b');  y = reshape(p)

Convolutions, pooling and batch norms of three axes become those of four, between two reshapes.
What follows element by element, and slices, pads, joins and reductions of channels or of the
sequence, moves in front of the reshape behind it: between two convolutions nothing is left of
both. So does what follows a convolution of images of one row that a file writes between reshapes
of its own.

Place:  after ReplaceSplit, before CanonicalizeQdq: what comes then knows images alone.
Exact:  bit-identical; rows of length one add nothing to a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.compiler.passes.normalize.image_views import (
    ImageViews,
    batch_norm_of,
    is_tensor,
    normalized_image,
)
from relay_int8.compiler.passes.normalize.steps_on_axes import (
    ELEMENTWISE,
    REDUCTIONS,
    padded,
    paired,
    sliced,
)
from relay_int8.graph.dataflow import constant, operator, shape, with_arguments
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main

RANK = 3


@tvm.transform.module_pass(opt_level=0, name="CanonicalizeSequence")
class CanonicalizeSequence:
    """Write networks over sequences, (n, c, l), as networks over images of one row."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with images alone; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _Canonicalizer(mod["main"]).rewrite)


class _Canonicalizer:
    def __init__(self, func: relax.Function) -> None:
        self._views = ImageViews(func, image="image", view="sequence")
        self._images = self._views.images

    def rewrite(self, scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
        """Return the sequence that an image of one row is, in the place of ``value``."""
        image = self._image(scope, value)
        if image is None or isinstance(image, Declined):
            return image
        if 0 in shape(value):  # Relax's reshape takes 0 for "as it was"
            return Declined(f"its result {shape(value)} is empty")
        image = scope.typed(image)
        if len(shape(image)) != RANK + 1:
            return image
        return self._views.bind(scope, image, lambda held: relax.op.reshape(held, shape(value)))

    def _image(self, scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
        """Return what ``value`` is of images, or keep it."""
        if isinstance(value, relax.TupleGetItem):
            norm = batch_norm_of(scope, value, RANK)
            if norm is None:
                return None
            return normalized_image(scope, norm, RANK, self._raised)
        op = operator(value)
        if op in _WINDOWS:
            if len(shape(value.args[0])) != RANK:
                return None
            return _WINDOWS[op](scope, value, self._raised(scope, value.args[0]))
        if op == "concat":
            return self._joined(scope, value)
        if not isinstance(value, relax.Call) or not any(map(self._is_raised(scope), value.args)):
            return None
        if op in ELEMENTWISE:
            return self._elementwise(scope, value)
        follow = _FOLLOWERS.get(op)
        return None if follow is None else follow(value, self._raised(scope, value.args[0]))

    def _is_raised(self, scope: Scope) -> Callable[[relax.Expr], bool]:
        return lambda operand: self._source(scope, operand) is not None

    def _source(self, scope: Scope, operand: relax.Expr) -> relax.Var | None:
        """Return the image of one row that a sequence is a view of, or None."""
        if not isinstance(operand, relax.Var):
            return None
        if operand in self._images:
            return self._images[operand]
        view = scope.value(operand)
        if operator(view) not in ("reshape", "squeeze") or len(shape(view)) != RANK:
            return None
        n, c, length = shape(view)
        source = view.args[0]
        is_image = isinstance(source, relax.Var) and shape(source) == (n, c, 1, length)
        return source if is_image else None

    def _raised(self, scope: Scope, operand: relax.Expr) -> relax.Expr:
        """Return ``operand`` with a row axis before its last one, if it has several."""
        dims = shape(operand)
        if len(dims) < 2:
            return operand
        array = constant(operand)
        if array is not None:
            return relax.const(np.expand_dims(array, -2), str(array.dtype))
        source = self._source(scope, operand)
        if source is None:
            view = relax.op.reshape(operand, (*dims[:-1], 1, dims[-1]))
            source = scope.bind(f"{operand.name}/image", view)
        self._images[operand] = source
        return source

    def _elementwise(self, scope: Scope, value: relax.Call) -> relax.Expr | Declined:
        axis = getattr(value.attrs, "axis", 1)
        if len(shape(value)) != RANK:
            return Declined(f"it makes {shape(value)} of a sequence")
        if axis != 1:
            return Declined(f"its numbers are those of axis {axis}, not of channels")
        args = [self._raised(scope, arg) if is_tensor(arg) else arg for arg in value.args]
        return with_arguments(value, args)

    def _joined(self, scope: Scope, value: relax.Call) -> relax.Expr | None:
        fields = list(value.args[0].fields) if isinstance(value.args[0], relax.Tuple) else []
        if len(shape(value)) != RANK or not any(map(self._is_raised(scope), fields)):
            return None
        parts = [self._raised(scope, field) for field in fields]
        return relax.op.concat(parts, _axis(int(value.attrs.axis or 0)))


def _axis(axis: int) -> int:
    """Return the axis of an image that one of a sequence becomes."""
    return (0, 1, 3)[axis % RANK]


def _weight(scope: Scope, w: relax.Expr) -> relax.Expr:
    """Return weights with a row axis, those of a Q/DQ pair too; scales stay those of channels."""
    array, value = constant(w), scope.value(w)
    if array is not None:
        return relax.const(np.expand_dims(array, 2), str(array.dtype))
    if operator(value) not in ("quantize", "dequantize"):
        return scope.emit("weight", relax.op.expand_dims(w, 2))
    inner = _weight(scope, value.args[0])
    return scope.bind(f"{w.name}/image", _same_pair(value, inner))


def _same_pair(value: relax.Call, x: relax.Expr) -> relax.Expr:
    return paired(value, x, _axis)


def _row(extents: Sequence[int], neutral: int = 1) -> list[int]:
    """Return a number of the sequence with that of a single row before it."""
    return [neutral, *(int(extent) for extent in extents)]


def _sides(padding: Sequence[int]) -> list[int]:
    before, after = (int(width) for width in padding)
    return [0, before, 0, after]


def _conv(scope: Scope, value: relax.Call, x: relax.Expr) -> relax.Expr | Declined:
    attrs = value.attrs
    if (attrs.data_layout, attrs.kernel_layout) != ("NCW", "OIW"):
        return Declined(f"its layouts are {attrs.data_layout} and {attrs.kernel_layout}")
    return relax.op.nn.conv2d(
        x,
        _weight(scope, value.args[1]),
        strides=_row(attrs.strides),
        padding=_sides(attrs.padding),
        dilation=_row(attrs.dilation),
        groups=int(attrs.groups),
    )


def _transposed_conv(scope: Scope, value: relax.Call, x: relax.Expr) -> relax.Expr | Declined:
    attrs = value.attrs
    if (attrs.data_layout, attrs.kernel_layout) != ("NCW", "IOW"):
        return Declined(f"its layouts are {attrs.data_layout} and {attrs.kernel_layout}")
    return relax.op.nn.conv2d_transpose(
        x,
        _weight(scope, value.args[1]),
        strides=_row(attrs.strides),
        padding=_sides(attrs.padding),
        output_padding=_row(attrs.output_padding, 0),
        dilation=_row(attrs.dilation),
        groups=int(attrs.groups),
    )


def _pool(scope: Scope, value: relax.Call, x: relax.Expr) -> relax.Expr | Declined:
    attrs = value.attrs
    if attrs.layout != "NCW":
        return Declined(f"its layout is {attrs.layout}, not NCW")
    is_max = operator(value) == "nn.max_pool1d"
    return (relax.op.nn.max_pool2d if is_max else relax.op.nn.avg_pool2d)(
        x,
        pool_size=_row(attrs.pool_size),
        strides=_row(attrs.strides),
        padding=_sides(attrs.padding),
        dilation=_row(attrs.dilation),
        ceil_mode=bool(attrs.ceil_mode),
        count_include_pad=bool(attrs.count_include_pad),
    )


def _adaptive_pool(scope: Scope, value: relax.Call, x: relax.Expr) -> relax.Expr | Declined:
    if value.attrs.layout != "NCW":
        return Declined(f"its layout is {value.attrs.layout}, not NCW")
    return relax.op.nn.adaptive_avg_pool2d(x, (1, shape(value)[2]))


_WINDOWS: dict[str, Callable[[Scope, relax.Call, relax.Expr], relax.Expr | Declined]] = {
    "nn.adaptive_avg_pool1d": _adaptive_pool,
    "nn.avg_pool1d": _pool,
    "nn.conv1d": _conv,
    "nn.conv1d_transpose": _transposed_conv,
    "nn.max_pool1d": _pool,
}
"""Operators that become those of images wherever they stand."""


def _slice(value: relax.Call, x: relax.Expr) -> relax.Expr:
    return sliced(value, x, _axis)


def _pad(value: relax.Call, x: relax.Expr) -> relax.Expr:
    widths = [int(width) for width in value.attrs.pad_width]
    return padded(value, x, [*widths[:4], 0, 0, *widths[4:]])


def _reduce(value: relax.Call, x: relax.Expr) -> relax.Expr | Declined:
    """Reduce channels or the sequence; without the axis left over, the sequence alone."""
    axes = range(RANK) if value.attrs.axis is None else value.attrs.axis
    reduced_axes = {_axis(int(axis)) for axis in axes}
    if not value.attrs.keepdims and reduced_axes != {3}:
        return Declined("it drops other axes than that of the sequence")
    reduce = getattr(relax.op, operator(value))
    return reduce(
        x, sorted(reduced_axes | {2} if 3 in reduced_axes else reduced_axes), value.attrs.keepdims
    )


def _broadcast(value: relax.Call, x: relax.Expr) -> relax.Expr | Declined:
    dims = shape(value)
    if len(dims) != RANK:
        return Declined(f"it makes {dims} of a sequence")
    return relax.op.broadcast_to(x, (*dims[:2], 1, dims[2]))


def _norm(value: relax.Call, x: relax.Expr) -> relax.Expr | Declined:
    """Normalize a channel along the row too, whose length is one."""
    attrs = value.attrs
    axes = [int(axis) % RANK for axis in attrs.axes]
    if int(attrs.channel_axis) % RANK != 1 or axes != [2]:
        return Declined(f"it normalizes axes {axes} of channel {attrs.channel_axis}")
    rest = ([2, 3], attrs.epsilon, attrs.center, attrs.scale)
    if operator(value) == "nn.instance_norm":
        return relax.op.nn.instance_norm(x, *value.args[1:], 1, *rest)
    return relax.op.nn.group_norm(x, *value.args[1:], int(attrs.num_groups), 1, *rest)


_FOLLOWERS: dict[str, Callable[[relax.Call, relax.Expr], relax.Expr | Declined]] = {
    "broadcast_to": _broadcast,
    "dequantize": _same_pair,
    "nn.group_norm": _norm,
    "nn.instance_norm": _norm,
    "nn.pad": _pad,
    "quantize": _same_pair,
    "strided_slice": _slice,
    **dict.fromkeys(REDUCTIONS, _reduce),
}
"""Operators that become those of images where their operand is one."""
