"""Write networks over videos, (n, c, t, h, w), as networks over their frames, (n * t, c, h, w).

    Before:  y = relu(conv3d(x, w) + b)
    After:   f = reshape(permute_dims(x, [0, 2, 1, 3, 4]), [n * t, c, h, w])
             p = relu(conv2d(taps(f), w') + b');  y = permute_dims(reshape(p))

A kernel of one frame sees frames one by one. One of k frames sees frames whose channels are those
of k frames of the video, one behind the other in each group: a reshape where its steps are of k
frames and nothing is padded, as patches of a video are; else k slices of the padded video, joined:
of an image that has all frames as its channels, where the next step is the next frame.
What follows element by element, batch norms, joins of channels and pooling within frames moves in
front of the permutation behind it: between two convolutions nothing is left of both. A video is
resized along its frames, each as one row of an image, and then frame by frame; it is pooled frame
by frame, and then along its frames, which are rows of an image for that.

Place:  after CanonicalizeSequence, before CanonicalizeQdq: what comes then knows images alone.
Exact:  the same products; of floats the order of the sum may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tvm
from tvm import IRModule, relax

from relay_int8.compiler.passes.normalize.image_views import (
    ImageViews,
    batch_norm_of,
    is_tensor,
    normalized_image,
)
from relay_int8.compiler.passes.normalize.steps_on_axes import ELEMENTWISE
from relay_int8.graph.dataflow import constant, operator, shape, with_arguments
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main

RANK = 5
FRAMES = 2
"""The axis of a video along which its frames lie."""
SWAP = (0, 2, 1, 3, 4)
"""Exchanges channels and frames; it is its own inverse."""


@tvm.transform.module_pass(opt_level=0, name="CanonicalizeVideo")
class CanonicalizeVideo:
    """Write networks over videos, (n, c, t, h, w), as networks over their frames."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with images alone; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _Canonicalizer(mod["main"]).rewrite)


class _Canonicalizer:
    def __init__(self, func: relax.Function) -> None:
        self._views = ImageViews(func, image="frames", view="video")
        self._frames = self._views.images

    def rewrite(self, scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
        """Return the video that frames are, in the place of ``value``."""
        frames = self._of_frames(scope, value)
        if frames is None or isinstance(frames, Declined):
            return frames
        n, c, t, h, w = shape(value)

        def _video(held: relax.Var) -> relax.Expr:
            split = scope.emit("split", relax.op.reshape(held, (n, t, c, h, w)))
            return relax.op.permute_dims(split, SWAP)

        return self._views.bind(scope, frames, _video)

    def _of_frames(self, scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
        """Return what ``value`` is of frames, or keep it."""
        op = operator(value)
        if op == "nn.conv3d":
            return self._conv(scope, value)
        if isinstance(value, relax.TupleGetItem):
            norm = batch_norm_of(scope, value, RANK)
            if norm is None or norm.args[0] not in self._frames:
                return None
            return normalized_image(scope, norm, RANK, self._raised)
        if not isinstance(value.ty, relax.TensorType) or len(shape(value)) != RANK:
            return None
        if op == "concat":
            return self._joined(scope, value)
        if op in ("nn.max_pool3d", "nn.avg_pool3d"):
            return self._pool(scope, value)
        if op == "image.resize3d":
            return self._resized(scope, value)
        if op in ELEMENTWISE and any(arg in self._frames for arg in value.args):
            return self._elementwise(scope, value)
        return None

    def _raised(self, scope: Scope, video: relax.Var) -> relax.Var:
        """Return the frames of a video as images, channels of one frame each."""
        if video not in self._frames:
            n, c, t, h, w = shape(video)
            turned = scope.bind(f"{video.name}/turned", relax.op.permute_dims(video, SWAP))
            view = relax.op.reshape(turned, (n * t, c, h, w))
            self._frames[video] = scope.bind(f"{video.name}/frames", view)
        return self._frames[video]

    def _conv(self, scope: Scope, value: relax.Call) -> relax.Expr | Declined:
        attrs, w = value.attrs, constant(value.args[1])
        if (attrs.data_layout, attrs.kernel_layout) != ("NCDHW", "OIDHW"):
            return Declined(f"its layouts are {attrs.data_layout} and {attrs.kernel_layout}")
        if w is None or not isinstance(value.args[0], relax.Var):
            return Declined("its weights are no constant of the file")
        out, depth, taps, height, width = w.shape
        weight = w.transpose(0, 2, 1, 3, 4).reshape(out, taps * depth, height, width)
        return relax.op.nn.conv2d(
            self._taps(scope, value, taps),
            relax.const(weight, str(weight.dtype)),
            strides=_within(attrs.strides),
            padding=_sides(attrs.padding),
            dilation=_within(attrs.dilation),
            groups=int(attrs.groups),
        )

    def _taps(self, scope: Scope, value: relax.Call, taps: int) -> relax.Var:
        """Return a frame for each frame of the result, with the channels that it is made of."""
        attrs = value.attrs
        stride, dilation = int(attrs.strides[0]), int(attrs.dilation[0])
        front, back = int(attrs.padding[0]), int(attrs.padding[3])
        groups, count = int(attrs.groups), shape(value)[FRAMES]
        n, c, t, h, w = shape(value.args[0])
        frames = self._raised(scope, value.args[0])
        is_padded = bool(front or back)
        if taps == stride == 1 and not is_padded:
            return frames
        is_patch = taps == stride and dilation == 1 and t == count * taps and not is_padded
        if is_patch and groups == 1:
            return scope.emit("taps", relax.op.reshape(frames, (n * count, taps * c, h, w)))
        if groups == stride == 1:
            return _neighbours(scope, value, frames, taps)
        x = scope.emit("split", relax.op.reshape(frames, (n, t, c, h, w)))
        if is_padded:
            x = scope.emit("pad", relax.op.nn.pad(x, [0, 0, front, back, *[0] * 6]))
        parts = []
        for tap in range(taps):
            first = tap * dilation
            last = first + (count - 1) * stride + 1
            part = relax.op.strided_slice(x, [1], [first], [last], [stride])
            part = scope.emit(f"tap{tap}", part)
            grouped = relax.op.reshape(part, (n * count, groups, c // groups, h, w))
            parts.append(scope.emit(f"tap{tap}/groups", grouped))
        joined = parts[0] if taps == 1 else scope.emit("joined", relax.op.concat(parts, 2))
        return scope.emit("taps", relax.op.reshape(joined, (n * count, taps * c, h, w)))

    def _pool(self, scope: Scope, value: relax.Call) -> relax.Expr | Declined:
        attrs = value.attrs
        if attrs.layout != "NCDHW" or not isinstance(value.args[0], relax.Var):
            return Declined(f"its layout is {attrs.layout}, not NCDHW")
        is_max = operator(value) == "nn.max_pool3d"
        depths = (attrs.pool_size[0], attrs.strides[0], attrs.padding[0], attrs.padding[3])
        is_within = tuple(map(int, depths)) == (1, 1, 0, 0)
        if not is_within and not is_max and (any(map(int, attrs.padding)) or attrs.ceil_mode):
            return Declined("it pools frames of different times, and counts what is around them")
        pool = relax.op.nn.max_pool2d if is_max else relax.op.nn.avg_pool2d
        how = {
            "ceil_mode": bool(attrs.ceil_mode),
            "count_include_pad": bool(attrs.count_include_pad),
        }
        pooled = pool(
            self._raised(scope, value.args[0]),
            pool_size=_within(attrs.pool_size),
            strides=_within(attrs.strides),
            padding=_sides(attrs.padding),
            dilation=_within(attrs.dilation),
            **how,
        )
        if is_within:
            return pooled
        across = partial(
            pool,
            pool_size=(int(attrs.pool_size[0]), 1),
            strides=(int(attrs.strides[0]), 1),
            padding=(int(attrs.padding[0]), 0, int(attrs.padding[3]), 0),
            dilation=(int(attrs.dilation[0]), 1),
            **how,
        )
        # The greatest of a window is that of the greatest of its frames; so is the mean.
        return self._across(scope, value, scope.emit("within", pooled), across)

    def _across(
        self,
        scope: Scope,
        value: relax.Call,
        frames: relax.Var,
        pool: Callable[[relax.Var], relax.Expr],
    ) -> relax.Expr:
        """Pool frames along their times too: these are rows of an image for that."""
        (n, c, t, *_), (h, w) = shape(value.args[0]), shape(frames)[2:]
        rows = scope.emit("rows", relax.op.reshape(frames, (n, t, c, h * w)))
        turned = scope.emit("turned", relax.op.permute_dims(rows, (0, 2, 1, 3)))
        back = relax.op.permute_dims(scope.emit("times", pool(turned)), (0, 2, 1, 3))
        return relax.op.reshape(scope.emit("back", back), (n * shape(value)[FRAMES], c, h, w))

    def _resized(self, scope: Scope, value: relax.Call) -> relax.Expr | Declined:
        """Return the frames at the times that are wanted, then each in the size that is wanted."""
        attrs = value.attrs
        if attrs.layout != "NCDHW" or not isinstance(value.args[0], relax.Var):
            return Declined(f"its layout is {attrs.layout}, not NCDHW")
        n, c, t, h, w = shape(value.args[0])
        times, *size = shape(value)[FRAMES:]
        frames = self._raised(scope, value.args[0])
        if times == t:
            return _resize(attrs, frames, size)
        # All of a frame is a row of an image: times are rows without moving anything.
        rows = scope.emit("rows", relax.op.reshape(frames, (n, 1, t, c * h * w)))
        resized = scope.emit("times", _resize(attrs, rows, (times, c * h * w)))
        frames_of_times = relax.op.reshape(resized, (n * times, c, h, w))
        if (h, w) == tuple(size):
            return frames_of_times
        return _resize(attrs, scope.emit("resized", frames_of_times), size)

    def _joined(self, scope: Scope, value: relax.Call) -> relax.Expr | None:
        fields = list(value.args[0].fields) if isinstance(value.args[0], relax.Tuple) else []
        known = any(field in self._frames for field in fields)
        if int(value.attrs.axis or 0) % RANK != 1 or not known:
            return None
        if not all(isinstance(field, relax.Var) for field in fields):
            return None
        return relax.op.concat([self._raised(scope, field) for field in fields], 1)

    def _elementwise(self, scope: Scope, value: relax.Call) -> relax.Expr | Declined:
        if getattr(value.attrs, "axis", 1) != 1:
            return Declined(f"its numbers are those of axis {value.attrs.axis}, not of channels")
        args = []
        for arg in value.args:
            operand = self._operand(scope, arg, shape(value)) if is_tensor(arg) else arg
            if operand is None:
                return Declined(f"it combines a video with {shape(arg)}")
            args.append(operand)
        return with_arguments(value, args)

    def _operand(self, scope: Scope, operand: relax.Expr, dims: Sequence[int]) -> relax.Expr | None:
        """Return what meets each frame, or None where frames meet different values."""
        own = shape(operand)
        if isinstance(operand, relax.Var) and own == tuple(dims):
            return self._raised(scope, operand)
        if len(own) < RANK - FRAMES:
            return operand
        if own[len(own) - RANK + FRAMES] != 1 or (len(own) == RANK and own[0] != 1):
            return None
        at = len(own) - RANK + FRAMES
        flat = (*own[:at], *own[at + 1 :])
        array = constant(operand)
        if array is not None:
            return relax.const(array.reshape(flat), str(array.dtype))
        return scope.bind(f"{scope.name}/{operand.name}", relax.op.reshape(operand, flat))


def _neighbours(scope: Scope, value: relax.Call, frames: relax.Var, taps: int) -> relax.Var:
    """Return the frames that a convolution reads, where its steps are of one frame, in one group.

    Frames are channels of one image on the way: blocks of them are copied, nothing is turned.
    """
    attrs, count = value.attrs, shape(value)[FRAMES]
    n, c, t, h, w = shape(value.args[0])
    front, back, dilation = int(attrs.padding[0]), int(attrs.padding[3]), int(attrs.dilation[0])
    x = scope.emit("side_by_side", relax.op.reshape(frames, (n, t * c, h, w)))
    if front or back:
        x = scope.emit("pad", relax.op.nn.pad(x, [0, 0, front * c, back * c, 0, 0, 0, 0]))
    parts = []
    for tap in range(taps):
        first = tap * dilation * c
        part = scope.emit(f"tap{tap}", relax.op.strided_slice(x, [1], [first], [first + count * c]))
        own = relax.op.reshape(part, (n * count, c, h, w))
        parts.append(scope.emit(f"tap{tap}/frames", own))
    return scope.emit("taps", relax.op.concat(parts, 1))


def _resize(attrs: Any, x: relax.Var, size: Sequence[int]) -> relax.Expr:
    """Resize images as ``attrs`` say of videos: each axis is resized by itself."""
    return relax.op.image.resize2d(
        x,
        tuple(size),
        layout="NCHW",
        method=attrs.method,
        coordinate_transformation_mode=attrs.coordinate_transformation_mode,
        rounding_method=attrs.rounding_method,
        cubic_alpha=float(attrs.cubic_alpha),
    )


def _within(extents: Sequence[int]) -> list[int]:
    """Return the numbers of a frame's axes, without that of the frames."""
    return [int(extent) for extent in extents[1:]]


def _sides(padding: Sequence[int]) -> list[int]:
    _, top, left, _, bottom, right = (int(width) for width in padding)
    return [top, left, bottom, right]
