"""PyTorch's sampling of images and volumes at the places of a grid."""

from __future__ import annotations

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


SAMPLING: dict[str, Converter] = dict.fromkeys(
    ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"), _grid_sample
)
