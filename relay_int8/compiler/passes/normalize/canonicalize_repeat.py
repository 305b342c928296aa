"""Write repeated rows or columns of an image as a nearest resize, which moves integers.

    Before:  e = reshape(x, (n, h, 1, w, c));  t = tile(e, (1, 1, k, 1, 1));  y = reshape(t, ...)
    After:   y = permute_dims(resize2d(permute_dims(x, NCHW), (h * k, w), nearest), NHWC)

Keras enlarges images so, one axis after the other. The second axis is that of rows, the last one
of channels, unless what is enlarged was computed with the channels first.

Place:  with the canonical forms of normalize, before reshapes are written as one.
Exact:  bit-identical.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import operator, shape
from relay_int8.graph.rewriting import Scope, rewrite_main

TO_NCHW, TO_NHWC = [0, 3, 1, 2], [0, 2, 3, 1]
RESHAPES = ("reshape", "expand_dims")


@tvm.transform.module_pass(opt_level=0, name="CanonicalizeRepeat")
class CanonicalizeRepeat:
    """Write repeated rows or columns of an image as a nearest resize."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with resizes; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _rewritten)


def _rewritten(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    turned = _turned_back(scope, value)
    return _resized(scope, value) if turned is None else turned


def _turned_back(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    """Return a resized image whose channels come first again."""
    inner = _turned(scope, value.args[0]) if _has_axes(value, TO_NCHW) else None
    return inner if operator(scope.value(inner)) == "image.resize2d" else None


def _turned(scope: Scope, x: relax.Expr) -> relax.Expr | None:
    """Return the image with its channels first that ``x`` is with the channels last, or None."""
    maker = scope.value(x)
    return maker.args[0] if _has_axes(maker, TO_NHWC) else None


def _has_axes(value: relax.Expr, axes: list[int]) -> bool:
    if operator(value) != "permute_dims" or value.attrs.axes is None:
        return False
    return [int(axis) for axis in value.attrs.axes] == axes


def _resized(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    if operator(value) != "reshape":
        return None
    tile = scope.value(value.args[0])
    if operator(tile) != "tile":
        return None
    cut = scope.value(tile.args[0])
    if operator(cut) not in RESHAPES:
        return None
    x = cut.args[0]
    axis, count = _repeated(shape(x), shape(tile), [int(n) for n in tile.attrs.repeats])
    if not axis:
        return None
    sizes = list(shape(x))
    sizes[axis] *= count
    if not _are_alike(sizes, shape(value)):
        return None
    image = _turned(scope, x)
    if axis == 3 or (axis == 2 and image is None):
        return _nearest(x, sizes[2:])
    if image is None:
        image = scope.emit("nchw", relax.op.permute_dims(x, TO_NCHW))
    return relax.op.permute_dims(scope.emit("resized", _nearest(image, sizes[1:3])), TO_NHWC)


def _repeated(dims: tuple[int, ...], tiled: tuple[int, ...], repeats: list[int]) -> tuple[int, int]:
    """Return which axis of four is repeated how often; zeros where none is."""
    axes = [axis for axis, count in enumerate(repeats) if count != 1]
    if len(dims) != 4 or len(tiled) != 5 or len(repeats) != 5 or len(axes) != 1:
        return 0, 0
    (place,) = axes
    axis, count = place - 1, repeats[place]
    is_new = axis > 0 and _are_alike((*dims[:place], count, *dims[place:]), tiled)
    return (axis, count) if is_new else (0, 0)


def _are_alike(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes are known and the same; the batch may be open, and is not compared."""
    sizes = (*a[1:], *b[1:])
    return all(isinstance(size, int) for size in sizes) and list(a[1:]) == list(b[1:])


def _nearest(image: relax.Expr, sizes: list[int]) -> relax.Call:
    return relax.op.image.resize2d(
        image,
        sizes,
        layout="NCHW",
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    )
