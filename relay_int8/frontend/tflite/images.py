"""TFLite operators on images without weights: pooling, resizing, blocks of pixels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from relay_int8.frontend.max_indices import Windows, max_offsets
from relay_int8.frontend.resampling import aligned_pixel
from relay_int8.frontend.tflite.layers import mode, padding, sizes
from relay_int8.frontend.tflite.step import Converter, TfliteStep
from relay_int8.frontend.tflite.tensors import Image, Result
from relay_int8.graph.dataflow import dtype, shape


def _average(step: TfliteStep) -> Result:
    """Average over windows; padding does not count."""
    x, kernel, strides = step.image(0), sizes(step, "filter"), sizes(step, "stride")
    pad = _pad(step, x)
    y = relax.op.nn.avg_pool2d(x, kernel, strides, pad, count_include_pad=False)
    return Image(step.activated(y))


def _root_of_squares(step: TfliteStep) -> Result:
    """Return the root of the mean square of windows; padding does not count."""
    x, kernel, strides = step.image(0), sizes(step, "filter"), sizes(step, "stride")
    squares = step.emit("squares", relax.op.square(x))
    y = relax.op.nn.avg_pool2d(squares, kernel, strides, _pad(step, x), count_include_pad=False)
    return Image(step.activated(relax.op.sqrt(step.emit("mean", y))))


def _maximum(step: TfliteStep) -> Result:
    x, kernel, strides = step.image(0), sizes(step, "filter"), sizes(step, "stride")
    return Image(step.activated(relax.op.nn.max_pool2d(x, kernel, strides, _pad(step, x))))


def _maximum_with_offsets(step: TfliteStep) -> list[Result]:
    """Return maxima of windows and where each lies in its window, counted row by row."""
    x, kernel = step.image(0), sizes(step, "filter")
    maxima = step.emit(
        "maxima", relax.op.nn.max_pool2d(x, kernel, sizes(step, "stride"), _pad(step, x))
    )
    windows = Windows(
        sizes=shape(maxima)[2:],
        kernel=kernel,
        strides=sizes(step, "stride"),
        before=_pad(step, x)[:2],
        dilation=(1, 1),
        steps=(kernel[1], 1),
    )
    offsets = step.emit("offsets", max_offsets(step.emit, x, windows))
    reals = relax.op.astype(offsets, "float32")
    return [Image(step.activated(maxima)), Image(reals)]


def _unpooled(step: TfliteStep) -> Result:
    """Put each element where its window had its maximum; all others are zero."""
    (rows, columns), strides = sizes(step, "filter"), sizes(step, "stride")
    if strides != (rows, columns):
        raise NotImplementedError(f"windows of {rows} x {columns} with strides {list(strides)}")
    n, c, h, w = shape(step.image(0))
    x = step.emit("elements", relax.op.expand_dims(step.image(0), 2))
    offsets = step.emit("offsets", relax.op.astype(step.image(1), "int32"))
    taps = np.arange(rows * columns, dtype="int32").reshape(1, 1, -1, 1, 1)
    is_here = relax.op.equal(
        step.emit("offset", relax.op.expand_dims(offsets, 2)), relax.const(taps)
    )
    zero = relax.const(np.zeros((), dtype(x)))
    x = step.emit("taps", relax.op.where(step.emit("chosen", is_here), x, zero))
    x = step.emit("blocks", relax.op.reshape(x, (n, c, rows, columns, h, w)))
    x = step.emit("moved", relax.op.permute_dims(x, [0, 1, 4, 2, 5, 3]))
    return Image(relax.op.reshape(x, (n, c, h * rows, w * columns)))


def _pad(step: TfliteStep, x: relax.Expr) -> list[int]:
    image, kernel = shape(x)[2:], sizes(step, "filter")
    if mode(step) == "VALID" and any(k > size for k, size in zip(kernel, image, strict=True)):
        raise ValueError(f"its filter {list(kernel)} does not fit {list(image)}")
    return padding(step, image, kernel, sizes(step, "stride"))


def _resize(method: str) -> Converter:
    def _convert(step: TfliteStep) -> Result:
        corners, half = step.options["align_corners"], step.options["half_pixel"]
        size = step.outputs[0].shape[1:3]
        if step.known(1) is not None:
            size = step.integers(1, "size")
        if len(size) != 2 or min(size) < 1 or (corners and half):
            raise ValueError(f"its size is {list(size)}, or it has two kinds of coordinates")
        x = step.image(0)
        if corners and (pixel := aligned_pixel(x, size)) is not None:
            return Image(pixel)
        coordinates = "align_corners" if corners else "half_pixel" if half else "asymmetric"
        if method == "linear":
            return Image(_interpolated(step, x, size, coordinates))
        whole = all(n % m == 0 for n, m in zip(size, shape(x)[2:], strict=True))
        if half and whole:
            coordinates = "asymmetric"  # copies of one pixel either way, moved as integers
        nearest = "floor" if coordinates == "asymmetric" else "round_prefer_ceil"
        return Image(_resized(x, size, method, coordinates, nearest))

    return _convert


def _interpolated(
    step: TfliteStep, x: relax.Expr, size: Sequence[int], coordinates: str
) -> relax.Expr:
    """Interpolate in float32; integers without scales are rounded, halves up."""
    kind = dtype(x)
    if kind == "float32":
        return _resized(x, size, "linear", coordinates)
    real = step.emit("real", relax.op.astype(x, "float32"))
    y = step.emit("resized", _resized(real, size, "linear", coordinates))
    shifted = step.emit("shifted", relax.op.add(y, relax.const(np.float32(0.5))))
    return relax.op.astype(step.emit("rounded", relax.op.floor(shifted)), kind)


def _resized(
    x: relax.Expr, size: Sequence[int], method: str, coordinates: str, rounding: str = ""
) -> relax.Expr:
    return relax.op.image.resize2d(
        x,
        size,
        layout="NCHW",
        method=method,
        coordinate_transformation_mode=coordinates,
        rounding_method=rounding,
    )


def _depth_to_space(step: TfliteStep) -> Result:
    """Move blocks of channels into space, the block's position slowest."""
    block = step.integer("block_size", 1)
    n, c, h, w = shape(step.image(0))
    if c % block**2:
        raise ValueError(f"{c} channels are no blocks of {block} x {block}")
    parts = (n, block, block, c // block**2, h, w)
    x = step.emit("blocks", relax.op.reshape(step.image(0), parts))
    x = step.emit("moved", relax.op.permute_dims(x, [0, 3, 4, 1, 5, 2]))
    return Image(relax.op.reshape(x, (n, c // block**2, h * block, w * block)))


def _space_to_depth(step: TfliteStep) -> Result:
    """Move blocks of space into channels, the block's position slowest."""
    block = step.integer("block_size", 1)
    n, c, h, w = shape(step.image(0))
    if h % block or w % block:
        raise ValueError(f"{h} x {w} is no multiple of {block} x {block}")
    x = relax.op.reshape(step.image(0), (n, c, h // block, block, w // block, block))
    x = relax.op.permute_dims(step.emit("blocks", x), [0, 3, 5, 1, 2, 4])
    return Image(relax.op.reshape(step.emit("moved", x), (n, c * block**2, h // block, w // block)))


def _space_to_batch(step: TfliteStep) -> Result:
    """Pad with zero, then make an image of every position within blocks, positions slowest."""
    if len(step.shape(0)) == 3:
        return _steps_to_batch(step)
    rows, columns, widths = _blocks(step)
    x = step.emit("padded", relax.op.nn.pad(step.image(0), [0, 0, 0, 0, *widths]))
    n, c, h, w = shape(x)
    if h % rows or w % columns:
        raise ValueError(f"{h} x {w} is no multiple of {rows} x {columns}")
    x = relax.op.reshape(x, (n, c, h // rows, rows, w // columns, columns))
    x = relax.op.permute_dims(step.emit("blocks", x), [3, 5, 0, 1, 2, 4])
    y = relax.op.reshape(step.emit("moved", x), (rows * columns * n, c, h // rows, w // columns))
    return Image(y)


def _batch_to_space(step: TfliteStep) -> Result:
    """Put images together that are the positions within blocks, then crop."""
    if len(step.shape(0)) == 3:
        return _batch_to_steps(step)
    rows, columns, (top, bottom, left, right) = _blocks(step)
    images, c, h, w = shape(step.image(0))
    if images % (rows * columns) or top + bottom >= h * rows or left + right >= w * columns:
        raise ValueError(f"blocks of {rows} x {columns}, cropped, of {images} images {h} x {w}")
    n = images // (rows * columns)
    x = relax.op.reshape(step.image(0), (rows, columns, n, c, h, w))
    x = relax.op.permute_dims(step.emit("blocks", x), [2, 3, 4, 0, 5, 1])
    y = relax.op.reshape(step.emit("moved", x), (n, c, h * rows, w * columns))
    if not any((top, bottom, left, right)):
        return Image(y)
    ends = [h * rows - bottom, w * columns - right]
    return Image(relax.op.strided_slice(step.emit("whole", y), [2, 3], [top, left], ends))


def _steps_to_batch(step: TfliteStep) -> Result:
    """Make a sequence of every position within blocks of steps, positions slowest."""
    block, (before, after) = _row_block(step)
    x = step.emit("padded", relax.op.nn.pad(step.plain(0), [0, 0, before, after, 0, 0]))
    n, length, c = shape(x)
    if length % block:
        raise ValueError(f"{length} steps are no multiple of {block}")
    x = step.emit("blocks", relax.op.reshape(x, (n, length // block, block, c)))
    x = step.emit("moved", relax.op.permute_dims(x, [2, 0, 1, 3]))
    return relax.op.reshape(x, (block * n, length // block, c))


def _batch_to_steps(step: TfliteStep) -> Result:
    """Put sequences together that are the positions within blocks of steps, then crop."""
    block, (before, after) = _row_block(step)
    count, length, c = step.shape(0)
    if count % block or before + after >= length * block:
        raise ValueError(f"blocks of {block}, cropped, of {count} sequences of {length}")
    x = relax.op.reshape(step.plain(0), (block, count // block, length, c))
    x = relax.op.permute_dims(step.emit("blocks", x), [1, 2, 0, 3])
    x = relax.op.reshape(step.emit("moved", x), (count // block, length * block, c))
    if not before and not after:
        return x
    whole = step.emit("whole", x)
    return relax.op.strided_slice(whole, [1], [before], [length * block - after])


def _row_block(step: TfliteStep) -> tuple[int, tuple[int, ...]]:
    """Return the length of blocks of steps, and what is padded or cropped on each side."""
    block, widths = step.integers(1, "block"), step.integers(2, "widths")
    if len(block) != 1 or len(widths) != 2 or block[0] < 1 or min(widths) < 0:
        raise ValueError(f"its block is {list(block)}, its widths {list(widths)}")
    return block[0], widths


def _blocks(step: TfliteStep) -> tuple[int, int, tuple[int, ...]]:
    """Return height and width of blocks, and what is padded or cropped on each side."""
    block, widths = step.integers(1, "block"), step.integers(2, "widths")
    if len(block) != 2 or len(widths) != 4:
        raise NotImplementedError(f"blocks of {len(block)} dimensions; only images have them here")
    if min(block) < 1 or min(widths) < 0:
        raise ValueError(f"its block is {list(block)}, its widths {list(widths)}")
    return block[0], block[1], widths


IMAGES: dict[str, Converter] = {
    "AVERAGE_POOL_2D": _average,
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "CUSTOM MaxPoolingWithArgmax2D": _maximum_with_offsets,
    "CUSTOM MaxUnpooling2D": _unpooled,
    "DEPTH_TO_SPACE": _depth_to_space,
    "L2_POOL_2D": _root_of_squares,
    "MAX_POOL_2D": _maximum,
    "RESIZE_BILINEAR": _resize("linear"),
    "RESIZE_NEAREST_NEIGHBOR": _resize("nearest_neighbor"),
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "SPACE_TO_DEPTH": _space_to_depth,
}
