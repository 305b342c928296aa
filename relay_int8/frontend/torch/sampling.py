"""PyTorch's sampling of images and volumes at the places of a grid."""

from __future__ import annotations

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import shape

METHODS = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
"""Torch's numbers of interpolations, and of what is outside of the image, in order."""
LAYOUTS = {4: "NCHW", 5: "NCDHW"}


def _grid_sample(step: TorchStep) -> Result:
    """Sample (n, c, h, w) at (n, rows, columns, 2), places from -1 to 1, x before y.

    Volumes (n, c, d, h, w) are sampled at (n, planes, rows, columns, 3).
    """
    x, grid = step.tensor("input"), step.tensor("grid")
    rank = len(shape(x))
    if rank not in LAYOUTS or len(shape(grid)) != rank:
        raise NotImplementedError(f"sampling {shape(x)} at {shape(grid)}")
    method, padding = step.integer("interpolation_mode"), step.integer("padding_mode")
    if method not in range(len(METHODS)) or padding not in range(len(PADDINGS)):
        raise ValueError(f"its interpolation is {method}, its padding {padding}")
    order = [0, rank - 1, *range(1, rank - 1)]
    places = step.emit("places", relax.op.permute_dims(grid, order))
    return relax.op.image.grid_sample(
        x,
        places,
        METHODS[method],
        layout=LAYOUTS[rank],
        padding_mode=PADDINGS[padding],
        align_corners=step.flag("align_corners", False),
    )


def _affine_grid(step: TorchStep) -> Result:
    """Return the places that (n, 2, 3) matrices, or (n, 3, 4) of volumes, move pixels to."""
    theta, size = step.tensor("theta"), step.integers("size")
    extents, rank = size[2:], len(size) - 2
    if shape(theta) != (size[0], rank, rank + 1):
        raise ValueError(f"its matrices {shape(theta)} do not fit images {size}")
    aligned = step.flag("align_corners", False)
    axes = [_positions(extent, aligned) for extent in extents]
    places = np.stack([*np.meshgrid(*axes, indexing="ij")][::-1], -1).reshape(-1, rank)
    base = np.concatenate([places, np.ones((len(places), 1))], 1).astype("float32")
    turned = step.emit("turned", relax.op.permute_dims(theta, [0, 2, 1]))
    grid = step.emit("grid", relax.op.matmul(relax.const(base), turned))
    return relax.op.reshape(grid, (size[0], *extents, rank))


def _positions(extent: int, aligned: bool) -> np.ndarray:
    """Return centres of pixels between -1 and 1; the outer ones are -1 and 1 if aligned."""
    if extent == 1:
        return np.zeros(1)
    ends = np.linspace(-1.0, 1.0, extent)
    return ends if aligned else ends * (extent - 1) / extent


SAMPLING: dict[str, Converter] = {
    "affine_grid_generator": _affine_grid,
    **dict.fromkeys(("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"), _grid_sample),
}
