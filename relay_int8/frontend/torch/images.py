"""PyTorch operators on images without weights: resizing, and pixels that become channels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from tvm import relax

from relay_int8.frontend.blocks import Blocks, join_blocks
from relay_int8.frontend.resampling import (
    FILTERS,
    filter_weights,
    filtered_at,
    first_pixel,
    resized_by_products,
    taken_at,
)
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import shape

CUBIC = -0.75
PILLOW_CUBIC = -0.5
"""Sharpness of torch's cubic, and of that with antialias."""


def _resize(method: str, rank: int, *, exact: bool = False) -> Converter:
    """Resize to ``output_size``, or by ``scale_factors``: torch writes one or the other.

    A sequence is resized as an image of one row, or of its channels where corners are aligned.
    The nearest pixel is the one that a place is rounded down to, or, if ``exact``, that whose
    middle is the nearest.
    """
    names = ["scales"] if rank == 1 else ["scales_d", "scales_h", "scales_w"][-rank:]

    def _convert(step: TorchStep) -> Result:
        if step.rank != rank + 2:
            raise NotImplementedError(f"resizing {shape(step.x)}; expected {rank + 2} axes")
        sizes = shape(step.x)[2:]
        factors = _factors(step, names)
        target = _target(step, factors)
        corners = method != "nearest_neighbor" and step.flag("align_corners", False)
        if not corners and not _are_ratios(factors, sizes, target):
            return _at_places(step, method, target, factors, middles=exact)
        if corners and set(target) == {1}:
            return first_pixel(step.x)
        if corners and 1 in (*target, shape(step.x)[1] if rank == 1 else 0):
            raise NotImplementedError(
                "it aligns the corners of one pixel or channel: use align_corners=False"
            )
        whole = all(wanted % size == 0 for size, wanted in zip(sizes, target, strict=True))
        if method != "nearest_neighbor":
            where = {"coordinate_transformation_mode": "align_corners" if corners else "half_pixel"}
        elif exact and not whole:
            where = {
                "coordinate_transformation_mode": "half_pixel",
                "rounding_method": "round_prefer_ceil",
            }
        else:
            where = {"coordinate_transformation_mode": "asymmetric", "rounding_method": "floor"}
        x, rows = step.x, [1] * (2 - rank)
        if rows and corners:  # one row has no corners, those of all channels do
            rows = [shape(x)[1]]
        if rows:
            image = (shape(x)[0], shape(x)[1] // rows[0], *rows, *sizes)
            x = step.emit("image", relax.op.reshape(x, image))
        size = (*rows, *target)
        if rank > 2:
            return relax.op.image.resize3d(x, size, layout="NCDHW", method=method, **where)
        y = relax.op.image.resize2d(x, size, layout="NCHW", method=method, **where)
        if not rows:
            return y
        return relax.op.reshape(step.emit("resize", y), (*shape(step.x)[:2], *target))

    return _convert


def _without_aliases(mode: str) -> Converter:
    """Resize by the filter that is stretched where the image shrinks."""

    def _convert(step: TorchStep) -> Result:
        _image(step)
        if step.flag("align_corners", False):
            raise NotImplementedError("antialias that aligns the corners; use align_corners=False")
        factors = _factors(step, ["scales_h", "scales_w"])
        target = _target(step, factors)
        if not _are_ratios(factors, shape(step.x)[2:], target):
            raise NotImplementedError(
                f"antialias by {factors} from {list(shape(step.x)[2:])} to {list(target)}"
            )
        kernel = partial(FILTERS[mode], sharpness=PILLOW_CUBIC)
        weights = partial(filter_weights, kernel=kernel, inside=True)
        return resized_by_products(step.emit, step.x, target, weights)

    return _convert


def _image_shape(step: TorchStep) -> tuple[int, int, int, int]:
    batch, channels = shape(step.x)[:2]
    return batch, channels, *_image(step)


def _image(step: TorchStep) -> tuple[int, int]:
    if step.rank != 4:
        raise NotImplementedError(f"resizing {list(shape(step.x))}; images have 4 axes")
    height, width = shape(step.x)[2:]
    return height, width


def _factors(step: TorchStep, names: Sequence[str]) -> list[float | None]:
    """Return the factor of each axis, by which places are computed; None: by the sizes."""
    if step.arguments.get("output_size") is not None:
        return [None if step.arguments.get(n) is None else step.real(n) for n in names]
    factors = step.arguments.get("scale_factors")
    if not isinstance(factors, list) or len(factors) != len(names):
        raise ValueError("it has neither output_size nor scale_factors of every axis")
    return [float(factor) for factor in factors]


def _target(step: TorchStep, factors: Sequence[float | None]) -> list[int]:
    """Return the sizes that a node writes, or those that factors give, rounded down as by torch."""
    if step.arguments.get("output_size") is not None:
        return step.sizes("output_size", len(factors))
    sizes = shape(step.x)[2:]
    target = [math.floor(n * f) for n, f in zip(sizes, factors, strict=True) if f is not None]
    if 0 in target:
        raise ValueError(f"scale_factors {factors} of {list(sizes)} leave no pixel")
    return target


def _fits(extent: float) -> bool:
    """Whether a scaled extent is whole, but for the rounding of its factor."""
    return extent > 0.5 and abs(extent - round(extent)) <= 1e-6 * extent


def _are_ratios(
    factors: Sequence[float | None], sizes: Sequence[int], target: Sequence[int]
) -> bool:
    """Whether factors place pixels as the ratios of sizes do."""
    return all(
        factor is None or (_fits(size * factor) and round(size * factor) == wanted)
        for factor, size, wanted in zip(factors, sizes, target, strict=True)
    )


def _at_places(
    step: TorchStep,
    method: str,
    target: Sequence[int],
    factors: Sequence[float | None],
    *,
    middles: bool,
) -> relax.Expr:
    """Resize by factors that give a part of a pixel, with places in float32 as torch has them."""
    is_nearest = method == "nearest_neighbor"
    if len(target) > 2 and not is_nearest:
        raise NotImplementedError(
            f"a volume {list(shape(step.x))} by factors {list(factors)}; export it with a size"
        )
    places = []
    for size, wanted, factor in zip(shape(step.x)[2:], target, factors, strict=True):
        ratio = np.float32(size / wanted if factor is None else 1 / factor)
        half = np.float32(0.5 if middles or not is_nearest else 0.0)
        at = (np.arange(wanted, dtype="float32") + half) * ratio
        places.append(np.floor(at) if is_nearest else at - half)
    if is_nearest:
        return taken_at(step.emit, step.x, places)
    return filtered_at(step.emit, step.x, places, partial(FILTERS[method], sharpness=CUBIC))


def _pixel_shuffle(step: TorchStep) -> relax.Expr:
    """Turn each ``r * r`` channels into pixels."""
    r = step.integer("upscale_factor")
    height, width = _image(step)
    batch, channels = shape(step.x)[:2]
    if r < 1 or channels % (r * r):
        raise ValueError(f"{channels} channels do not become {r} x {r} pixels")
    inner = (batch, channels // r**2, r, r, height, width)
    apart = step.emit("apart", relax.op.reshape(step.x, inner))
    turned = step.emit("turned", relax.op.permute_dims(apart, [0, 1, 4, 2, 5, 3]))
    return relax.op.reshape(turned, (batch, channels // r**2, height * r, width * r))


def _pixel_unshuffle(step: TorchStep) -> relax.Expr:
    """Turn each ``r * r`` pixels into channels."""
    r = step.integer("downscale_factor")
    height, width = _image(step)
    batch, channels = shape(step.x)[:2]
    if r < 1 or height % r or width % r:
        raise ValueError(f"{height} x {width} pixels are no multiple of {r} x {r}")
    inner = (batch, channels, height // r, r, width // r, r)
    apart = step.emit("apart", relax.op.reshape(step.x, inner))
    turned = step.emit("turned", relax.op.permute_dims(apart, [0, 1, 3, 5, 2, 4]))
    return relax.op.reshape(turned, (batch, channels * r**2, height // r, width // r))


def _any_batch(convert: Callable[[TorchStep], relax.Expr]) -> Converter:
    """Let an operator of a batch of images take one image, or a batch of batches."""

    def _convert(step: TorchStep) -> Result:
        if step.rank == 4 or step.rank < 3:
            return convert(step)
        lead, image = shape(step.x)[:-3], shape(step.x)[-3:]
        batch = step.emit("batch", relax.op.reshape(step.x, (math.prod(lead), *image)))
        whole = step.emit(
            "whole", convert(replace(step, arguments={**step.arguments, "self": batch}))
        )
        return relax.op.reshape(whole, (*lead, *shape(whole)[1:]))

    return _convert


def _channel_shuffle(step: TorchStep) -> Result:
    """Deal channels of groups out in turn."""
    groups = step.integer("groups")
    batch, channels, *sizes = shape(step.x)
    if groups < 1 or channels % groups:
        raise ValueError(f"{channels} channels in {groups} groups")
    inner = (batch, groups, channels // groups, *sizes)
    apart = step.emit("apart", relax.op.reshape(step.x, inner))
    order = [0, 2, 1, *range(3, 3 + len(sizes))]
    turned = step.emit("turned", relax.op.permute_dims(apart, order))
    return relax.op.reshape(turned, (batch, channels, *sizes))


def _to_overlapping_blocks(step: TorchStep) -> Result:
    """Cut images into blocks that overlap, or leave pixels out, by indices along both axes."""
    kernel, strides = step.sizes("kernel_size", 2), step.sizes("stride", 2, 1)
    dilation, pad = step.sizes("dilation", 2, 1), step.sizes("padding", 2, 0, least=0)
    x, n, c = step.x, *shape(step.x)[:2]
    if any(pad):
        sides = [0, 0, 0, 0, pad[0], pad[0], pad[1], pad[1]]
        x = step.emit("padded", relax.op.nn.pad(x, sides, "constant", 0.0))
    counts = []
    for axis, size in zip((2, 4), shape(x)[2:], strict=True):
        i = axis // 2 - 1
        count = (size - dilation[i] * (kernel[i] - 1) - 1) // strides[i] + 1
        if count < 1:
            raise ValueError(f"blocks of {kernel} in an image of {shape(step.x)[2:]}")
        pixels = np.arange(kernel[i])[:, None] * dilation[i] + np.arange(count) * strides[i]
        x = step.emit("cut", relax.op.take(x, relax.const(pixels, "int64"), axis, mode="clip"))
        counts.append(count)
    turned = step.emit("turned", relax.op.permute_dims(x, [0, 1, 2, 4, 3, 5]))
    return relax.op.reshape(turned, (n, c * math.prod(kernel), math.prod(counts)))


def _to_blocks(step: TorchStep) -> Result:
    """Cut images into blocks: (n, c, h, w) becomes (n, c * block, number of blocks)."""
    (n, c, h, w), (rows, columns) = _image_shape(step), step.sizes("kernel_size", 2)
    gaps = step.sizes("dilation", 2, 1) != [1, 1] or any(step.sizes("padding", 2, 0, least=0))
    if [rows, columns] != step.sizes("stride", 2, 1) or gaps or h % rows or w % columns:
        return _to_overlapping_blocks(step)
    cut = step.emit("cut", relax.op.reshape(step.x, (n, c, h // rows, rows, w // columns, columns)))
    turned = step.emit("turned", relax.op.permute_dims(cut, [0, 1, 3, 5, 2, 4]))
    return relax.op.reshape(turned, (n, c * rows * columns, h // rows * (w // columns)))


def _from_blocks(step: TorchStep) -> Result:
    """Put blocks together to images of ``output_size``, added where they overlap."""
    pad = step.sizes("padding", 2, 0, least=0)
    blocks = Blocks(
        image=step.sizes("output_size", 2),
        block=step.sizes("kernel_size", 2),
        strides=step.sizes("stride", 2, 1),
        before=pad,
        after=pad,
        dilation=step.sizes("dilation", 2, 1),
    )
    return join_blocks(step.emit, step.x, blocks)


IMAGES: dict[str, Converter] = {
    "channel_shuffle": _channel_shuffle,
    "col2im": _from_blocks,
    "im2col": _to_blocks,
    "pixel_shuffle": _any_batch(_pixel_shuffle),
    "pixel_unshuffle": _any_batch(_pixel_unshuffle),
    "_upsample_bicubic2d_aa": _without_aliases("cubic"),
    "_upsample_bilinear2d_aa": _without_aliases("linear"),
    "_upsample_nearest_exact1d": _resize("nearest_neighbor", 1, exact=True),
    "_upsample_nearest_exact2d": _resize("nearest_neighbor", 2, exact=True),
    "upsample_bicubic2d": _resize("cubic", 2),
    "upsample_bilinear2d": _resize("linear", 2),
    "upsample_linear1d": _resize("linear", 1),
    "upsample_nearest1d": _resize("nearest_neighbor", 1),
    "upsample_nearest2d": _resize("nearest_neighbor", 2),
    "upsample_nearest3d": _resize("nearest_neighbor", 3),
    "upsample_trilinear3d": _resize("linear", 3),
}
