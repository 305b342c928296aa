"""PyTorch operators on images without weights: resizing, and pixels that become channels."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import shape


def _resize(method: str, rank: int) -> Converter:
    """Resize to ``output_size``, or by ``scale_factors``: torch writes one or the other.

    A sequence is resized as an image of one row.
    """
    names = ["scales"] if rank == 1 else ["scales_h", "scales_w"]

    def _convert(step: TorchStep) -> Result:
        if step.rank != rank + 2:
            raise NotImplementedError(f"resizing {shape(step.x)}; expected {rank + 2} axes")
        sizes = shape(step.x)[2:]
        if step.arguments.get("output_size") is not None:
            target = step.sizes("output_size", rank)
            _expect_ratio(step, names, sizes, target)
        else:
            target = _scaled(step, sizes)
        corners = method == "linear" and step.flag("align_corners", False)
        if corners and rank == 1:
            raise NotImplementedError(
                "it aligns the corners of a sequence: use align_corners=False"
            )
        if method == "nearest_neighbor":
            where = {"coordinate_transformation_mode": "asymmetric", "rounding_method": "floor"}
        else:
            where = {"coordinate_transformation_mode": "align_corners" if corners else "half_pixel"}
        x, rows = step.x, [1] * (2 - rank)
        if rows:
            x = step.emit("image", relax.op.reshape(x, (*shape(x)[:2], *rows, *sizes)))
        size = (*rows, *target)
        y = relax.op.image.resize2d(x, size, layout="NCHW", method=method, **where)
        if not rows:
            return y
        return relax.op.reshape(step.emit("resize", y), (*shape(x)[:2], *target))

    return _convert


def _image(step: TorchStep) -> tuple[int, int]:
    if step.rank != 4:
        raise NotImplementedError(f"resizing {list(shape(step.x))}; images have 4 axes")
    height, width = shape(step.x)[2:]
    return height, width


def _scaled(step: TorchStep, sizes: Sequence[int]) -> list[int]:
    """Return the target of whole factors; torch places pixels of others by the factor itself."""
    factors = step.arguments.get("scale_factors")
    if not isinstance(factors, list) or len(factors) != len(sizes):
        raise ValueError("it has neither output_size nor scale_factors of every axis")
    if any(not isinstance(f, int | float) or f < 1 or f != int(f) for f in factors):
        raise NotImplementedError(f"scale_factors {factors}; export it with a size")
    return [size * int(factor) for size, factor in zip(sizes, factors, strict=True)]


def _expect_ratio(
    step: TorchStep, names: Sequence[str], sizes: Sequence[int], target: list[int]
) -> None:
    for name, size, wanted in zip(names, sizes, target, strict=True):
        if step.arguments.get(name) is not None and step.real(name) * size != wanted:
            raise NotImplementedError(f"{name} {step.real(name)} from {size} to {wanted}")


def _pixel_shuffle(step: TorchStep) -> Result:
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


def _pixel_unshuffle(step: TorchStep) -> Result:
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


def _blocks(step: TorchStep) -> tuple[int, int]:
    """Return the extents of blocks that neither overlap nor leave anything out."""
    kernel, strides = step.sizes("kernel_size", 2), step.sizes("stride", 2, 1)
    if kernel != strides or any(step.sizes("padding", 2, 0, least=0)):
        raise NotImplementedError(
            f"blocks of {kernel} every {strides} pixels; only those that neither overlap nor are "
            "padded are read"
        )
    return kernel[0], kernel[1]


def _to_blocks(step: TorchStep) -> Result:
    """Cut images into blocks: (n, c, h, w) becomes (n, c * block, number of blocks)."""
    (n, c, h, w), (rows, columns) = shape(step.x), _blocks(step)
    if h % rows or w % columns:
        raise NotImplementedError(f"blocks of {rows} x {columns} of an image of {h} x {w}")
    cut = step.emit("cut", relax.op.reshape(step.x, (n, c, h // rows, rows, w // columns, columns)))
    turned = step.emit("turned", relax.op.permute_dims(cut, [0, 1, 3, 5, 2, 4]))
    return relax.op.reshape(turned, (n, c * rows * columns, h // rows * (w // columns)))


def _from_blocks(step: TorchStep) -> Result:
    """Put blocks together to images of ``output_size``."""
    (n, depth, count), (rows, columns) = shape(step.x), _blocks(step)
    h, w = step.sizes("output_size", 2)
    c = depth // (rows * columns)
    if h % rows or w % columns or count != h // rows * (w // columns):
        raise ValueError(f"{count} blocks of {rows} x {columns} make no image of {h} x {w}")
    cut = step.emit("cut", relax.op.reshape(step.x, (n, c, rows, columns, h // rows, w // columns)))
    turned = step.emit("turned", relax.op.permute_dims(cut, [0, 1, 4, 2, 5, 3]))
    return relax.op.reshape(turned, (n, c, h, w))


IMAGES: dict[str, Converter] = {
    "channel_shuffle": _channel_shuffle,
    "col2im": _from_blocks,
    "im2col": _to_blocks,
    "pixel_shuffle": _pixel_shuffle,
    "pixel_unshuffle": _pixel_unshuffle,
    "upsample_bilinear2d": _resize("linear", 2),
    "upsample_linear1d": _resize("linear", 1),
    "upsample_nearest1d": _resize("nearest_neighbor", 1),
    "upsample_nearest2d": _resize("nearest_neighbor", 2),
}
