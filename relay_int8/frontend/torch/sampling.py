"""PyTorch's sampling of images at the places of a grid."""

from __future__ import annotations

from tvm import relax

from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import shape

METHODS = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
"""Torch's numbers of interpolations, and of what is outside of the image, in order."""


def _grid_sample(step: TorchStep) -> Result:
    """Sample (n, c, h, w) at (n, rows, columns, 2), places from -1 to 1, x before y."""
    x, grid = step.tensor("input"), step.tensor("grid")
    if len(shape(x)) != 4 or len(shape(grid)) != 4:
        raise NotImplementedError(f"sampling {shape(x)} at {shape(grid)}; images have 4 axes")
    method, padding = step.integer("interpolation_mode"), step.integer("padding_mode")
    if method not in range(len(METHODS)) or padding not in range(len(PADDINGS)):
        raise ValueError(f"its interpolation is {method}, its padding {padding}")
    places = step.emit("places", relax.op.permute_dims(grid, [0, 3, 1, 2]))
    return relax.op.image.grid_sample(
        x,
        places,
        METHODS[method],
        padding_mode=PADDINGS[padding],
        align_corners=step.flag("align_corners", False),
    )


SAMPLING: dict[str, Converter] = {"grid_sampler": _grid_sample, "grid_sampler_2d": _grid_sample}
