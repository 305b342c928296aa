"""MXNet operators on images without weights: pooling, resizing, cropping."""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm import relax

from relay_int8.frontend.mxnet.layers import expect_shape, window
from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.frontend.resampling import aligned_pixel
from relay_int8.graph.dataflow import shape

MAX_POOLS = (relax.op.nn.max_pool1d, relax.op.nn.max_pool2d, relax.op.nn.max_pool3d)
AVERAGE_POOLS = (relax.op.nn.avg_pool1d, relax.op.nn.avg_pool2d, relax.op.nn.avg_pool3d)


def pooling(step: MxnetStep) -> relax.Expr:
    """Pool by windows, or the whole image.

    The convention ``full`` rounds the number of windows up, ``same`` (one dimension) makes as many
    as strides fit. An average counts padding unless ``count_include_pad`` is False, and never what
    hangs over.
    """
    attrs = step.attributes
    kind = attrs.text("pool_type", "max")
    if attrs.flag("global_pool", False):
        return _global_pool(step, kind)
    kernel, strides, _, pad = window(step)
    convention = attrs.text("pooling_convention", "valid")
    if convention not in ("valid", "full", "same"):
        raise ValueError(f"its pooling_convention is {convention!r}, not valid, full or same")
    include_pad = attrs.flag("count_include_pad", True)
    _expect_image(step, kernel, pad)
    sides = (*pad, *pad)
    if convention == "same":
        sides = _same(step, kind, kernel, strides, pad)
    if convention == "full":
        _expect_windows_that_begin_inside(step, kernel, strides, pad)
    options = {"strides": strides, "padding": sides, "ceil_mode": convention == "full"}
    if kind == "max":
        return MAX_POOLS[len(kernel) - 1](step.x, kernel, **options)
    if kind == "sum" and convention == "valid":
        include_pad = True
    elif kind != "avg":
        raise NotImplementedError(f"{kind} pooling by the convention {convention}")
    y = AVERAGE_POOLS[len(kernel) - 1](step.x, kernel, count_include_pad=include_pad, **options)
    if kind == "avg":
        return y
    return relax.op.multiply(step.emit("mean", y), step.number(float(math.prod(kernel))))


def _expect_image(step: MxnetStep, kernel: tuple[int, ...], pad: tuple[int, ...]) -> None:
    sizes = shape(step.x)[2:]
    for size, k, p in zip(sizes, kernel, pad, strict=True):
        if k > size + 2 * p or p >= k:
            raise ValueError(
                f"its kernel {list(kernel)} with pad {list(pad)} does not fit {list(sizes)}"
            )


def _expect_windows_that_begin_inside(
    step: MxnetStep, kernel: tuple[int, ...], strides: tuple[int, ...], pad: tuple[int, ...]
) -> None:
    """Refuse what MXNet alone counts as a window: one that sees only padding behind the image."""
    for size, k, s, p in zip(shape(step.x)[2:], kernel, strides, pad, strict=True):
        if -((k - size - 2 * p) // s) * s >= size + p:
            raise NotImplementedError(
                f"pooling_convention full: its last window of {k} would begin behind {size} "
                f"positions padded by {p}"
            )


def _same(
    step: MxnetStep,
    kind: str,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    pad: tuple[int, ...],
) -> tuple[int, ...]:
    """Return the padding that makes ``ceil((size + 2 pad) / stride)`` windows."""
    if len(kernel) != 1 or kind != "max":
        raise NotImplementedError(
            f"{kind} pooling in {len(kernel)} dimensions by the convention same; only max in one"
        )
    padded = shape(step.x)[2] + 2 * pad[0]
    last = (-(-padded // strides[0]) - 1) * strides[0] + kernel[0]
    if last < padded:
        raise NotImplementedError("the convention same with strides beyond the kernel")
    return pad[0], pad[0] + last - padded


def _global_pool(step: MxnetStep, kind: str) -> relax.Expr:
    reductions = {"avg": relax.op.mean, "max": relax.op.max, "sum": relax.op.sum}
    rank = len(shape(step.x))
    if kind not in reductions or rank < 3:
        raise NotImplementedError(f"global {kind} pooling of {rank} dimensions")
    return reductions[kind](step.x, list(range(2, rank)), keepdims=True)


def up_sampling(step: MxnetStep) -> relax.Expr:
    """Repeat pixels, or interpolate by given weights (a transposed convolution of each channel).

    Several inputs whose pixels are repeated all reach the size of the first, then are put together.
    """
    attrs = step.attributes
    kind = attrs.text("sample_type")
    scale = attrs.integer("scale", least=1)
    if kind == "bilinear":
        return _interpolated(step, scale)
    if kind != "nearest":
        raise ValueError(f"its sample_type is {kind!r}, not nearest or bilinear")
    height, width = (extent * scale for extent in _image(step.x))
    parts = []
    for x in step.inputs:
        rows, columns = _image(x)
        if height % rows or width % columns or height // rows != width // columns:
            raise ValueError(f"an input of {rows} x {columns} does not reach {height} x {width}")
        parts.append(step.emit("resize", _resized(x, height, width, "asymmetric")))
    if len(parts) == 1:
        return parts[0]
    if attrs.text("multi_input_mode", "concat") == "concat":
        return relax.op.concat(parts, axis=1)
    total = parts[0]
    for part in parts[1:]:
        total = step.emit("add", relax.op.add(total, part))
    return total


def _interpolated(step: MxnetStep, scale: int) -> relax.Expr:
    x, w = step.operands("data", "weight")
    _image(x)
    channels, kernel = shape(x)[1], 2 * scale - scale % 2
    expect_shape("weight", w, (channels, 1, kernel, kernel))
    pad = (scale // 2,) * 2
    return relax.op.nn.conv2d_transpose(x, w, (scale, scale), pad, groups=channels)


def _image(x: relax.Expr) -> tuple[int, int]:
    """Return height and width."""
    dims = shape(x)
    if len(dims) != 4:
        raise ValueError(f"its input is {list(dims)}, not a batch of images")
    return dims[2], dims[3]


def _resized(x: relax.Expr, height: int, width: int, coordinates: str) -> relax.Expr:
    """Interpolate, or repeat pixels where coordinates are asymmetric."""
    is_nearest = coordinates == "asymmetric"
    if coordinates == "align_corners":
        pixel = aligned_pixel(x, (height, width))
        if pixel is not None:
            return pixel
    return relax.op.image.resize2d(
        x,
        (height, width),
        layout="NCHW",
        method="nearest_neighbor" if is_nearest else "linear",
        coordinate_transformation_mode=coordinates,
        rounding_method="floor" if is_nearest else "",
    )


def bilinear_resize(step: MxnetStep) -> relax.Expr:
    """Interpolate to the size that the mode says, corners on corners or centers on centers."""
    attrs = step.attributes
    mode = attrs.text("mode", "size")
    if mode not in MODES:
        raise ValueError(f"its mode is {mode!r}, not one of {', '.join(MODES)}")
    x, *like = step.operands("data", *(["like"] if mode == "like" else []))
    if like:
        height, width = _image(like[0])
    else:
        height, width = (MODES[mode](step, side) for side in _sides(step))
    is_cornered = attrs.flag("align_corners", True)
    return _resized(x, height, width, "align_corners" if is_cornered else "half_pixel")


def _sides(step: MxnetStep) -> tuple[tuple[str, int], tuple[str, int]]:
    height, width = _image(step.x)
    return ("height", height), ("width", width)


def _given(step: MxnetStep, side: tuple[str, int]) -> int:
    """Return a size by its factor, or as it is written."""
    name, size = side
    if "scale_height" in step.attributes:
        return math.floor(size * step.attributes.real(f"scale_{name}", 1.0))
    return step.attributes.integer(name, size, least=1)


def _odd_scale(step: MxnetStep, side: tuple[str, int]) -> int:
    """Return a size by its factor, of an odd one without its first pixel, which is added."""
    name, size = side
    scale = step.attributes.real(f"scale_{name}", 1.0)
    return math.floor(size * scale) if size % 2 == 0 else math.floor((size - 1) * scale) + 1


MODES: dict[str, Callable[[MxnetStep, tuple[str, int]], int]] = {
    "like": _given,
    "odd_scale": _odd_scale,
    "size": _given,
    "to_even_down": lambda _, side: side[1] - side[1] % 2,
    "to_even_up": lambda _, side: side[1] + side[1] % 2,
    "to_odd_down": lambda _, side: side[1] - 1 + side[1] % 2,
    "to_odd_up": lambda _, side: side[1] + 1 - side[1] % 2,
}
"""Mode of ``BilinearResize2D`` -> what a side becomes."""


def adaptive_average_pooling(step: MxnetStep) -> relax.Expr:
    """Average over as many windows as the result has pixels."""
    _image(step.x)
    size = step.attributes.integers("output_size") or (1,)
    rows, columns = (size * 2)[:2]
    if not rows or not columns or min(rows, columns) < 1:
        raise ValueError(f"its output_size is {list(size)}")
    return relax.op.nn.adaptive_avg_pool2d(step.x, (rows, columns))


def crop(step: MxnetStep) -> relax.Expr:
    """Cut a window out of an image: of a given size, or of the second input's."""
    attrs = step.attributes
    height, width = _image(step.x)
    like = _image(step.inputs[1]) if len(step.inputs) > 1 else (1, 1)
    given = attrs.sizes("h_w", (0, 0), least=0)
    rows, columns = like if len(step.inputs) > 1 else given
    top, left = attrs.sizes("offset", (0, 0), least=0)
    if attrs.flag("center_crop", False):
        top, left = (height - rows) // 2, (width - columns) // 2
    if (
        min(rows, columns) < 1
        or min(top, left) < 0
        or top + rows > height
        or left + columns > width
    ):
        raise ValueError(f"a window of {rows} x {columns} does not fit {height} x {width}")
    return relax.op.strided_slice(step.x, [2, 3], [top, left], [top + rows, left + columns])


IMAGES: dict[str, Converter] = {
    "Crop": crop,
    "Pooling": pooling,
    "Pooling_v1": pooling,
    "UpSampling": up_sampling,
    "_contrib_AdaptiveAvgPooling2D": adaptive_average_pooling,
    "_contrib_BilinearResize2D": bilinear_resize,
}
