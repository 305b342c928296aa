"""MXNet's spatial transformers: grids of places, and images that are interpolated there.

Places are from -1 to 1, x before y, and the outer ones are the centres of the outer pixels; what
is outside of the image is zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.frontend.small_matrices import product
from relay_int8.graph.dataflow import shape


def _grid(step: MxnetStep) -> relax.Expr:
    """Return places by affine maps of those of a size, or by how far each pixel is moved."""
    kind = step.attributes.text("transform_type")
    if kind == "affine":
        return _affine(step, step.x)
    if kind != "warp":
        raise ValueError(f"its transform_type is {kind!r}, not affine or warp")
    n, count, rows, columns = shape(step.x)
    if count != 2 or min(rows, columns) < 2:
        raise ValueError(f"its input is {[n, count, rows, columns]}, no moves of pixels")
    halves = np.array([columns - 1, rows - 1], "float32").reshape(1, 2, 1, 1) / 2
    moved = step.emit("moved", relax.op.divide(step.x, relax.const(halves)))
    places = _places((rows, columns)).reshape(1, 2, rows, columns)
    return relax.op.add(moved, relax.const(places))


def _affine(step: MxnetStep, theta: relax.Expr) -> relax.Expr:
    """Return (n, 2, rows, columns) places by (n, 6) maps."""
    size, n = step.attributes.sizes("target_shape", (1, 1), least=1), shape(theta)[0]
    base = np.concatenate([_places(size), np.ones((1, size[0] * size[1]), "float32")])
    maps = step.emit("maps", relax.op.reshape(theta, (n, 2, 3)))
    places = step.emit("places", product(step.emit, maps, relax.const(base[None])))
    return relax.op.reshape(places, (n, 2, *size))


def _places(size: Sequence[int]) -> np.ndarray:
    """Return x and y of all pixels, (2, rows * columns)."""
    y, x = (np.linspace(-1, 1, extent) if extent > 1 else np.array([-1.0]) for extent in size)
    return np.stack(np.meshgrid(x, y)).reshape(2, -1).astype("float32")


def _sampled(step: MxnetStep) -> relax.Expr:
    x, grid = step.operands("data", "grid")
    if len(shape(x)) != 4 or len(shape(grid)) != 4 or shape(grid)[1] != 2:
        raise ValueError(f"its inputs are {list(shape(x))} and {list(shape(grid))}")
    return relax.op.image.grid_sample(x, grid, align_corners=True)


def _transformed(step: MxnetStep) -> relax.Expr:
    """Sample an image at the places of an affine map."""
    x, theta = step.operands("data", "loc")
    kinds = step.attributes.text("transform_type"), step.attributes.text("sampler_type")
    if kinds != ("affine", "bilinear"):
        raise ValueError(f"its types are {kinds}, not affine and bilinear")
    return relax.op.image.grid_sample(
        x, step.emit("grid", _affine(step, theta)), align_corners=True
    )


SAMPLING: dict[str, Converter] = {
    "BilinearSampler": _sampled,
    "GridGenerator": _grid,
    "SpatialTransformer": _transformed,
}
